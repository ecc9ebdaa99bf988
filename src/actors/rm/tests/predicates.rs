//! API sections 1 and 2, "Predicates".

use super::*;
use crate::messages::rm::{Answer, AnswerBody, Answers, Kind, Payload, StateDump};

async fn answer(env: &Env, id: u64, body: AnswerBody) {
    answer_of(env, env.rm().view.load().epoch, id, body).await;
}

async fn answer_of(env: &Env, epoch: u64, id: u64, body: AnswerBody) {
    env.rm().addr.send(Answers { epoch, answers: vec![Answer { id, body }] }).await.expect("alive");
    env.settle().await;
}

fn fits() -> AnswerBody {
    AnswerBody::Single { result: Ok(()), index: 0 }
}

async fn asking(predicates: Predicates) -> Env {
    let env = Env::new();
    env.try_register(with(predicates)).await.expect("registered");
    env.settle().await;
    env
}

#[actix::test]
async fn a_shim_that_did_not_say_so_is_not_asked() {
    let env = asking(Predicates::Off).await;
    let mut stream = env.stream(0).await;
    env.deliver(vec![question(3, "k", "n")]).await;
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 answer 3 Ok(()) 0"]);
    assert!(stream.lines().is_empty());
}

#[actix::test]
async fn a_question_follows_the_callbacks_before_it_and_its_answer_goes_back() {
    let env = asking(Predicates::Single).await;
    let mut stream = env.stream(0).await;
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 ask true"]);
    env.deliver(vec![node(1), question(7, "k", "n"), node(2)]).await;
    let lines = stream.lines();
    assert!(matches!(lines[1].payload, Payload::Ask(_)));
    assert_eq!(lines[1].seq, 2);
    answer(&env, 9, fits()).await;
    assert_eq!(env.told(), [""; 0], "nobody asked that");
    answer(&env, 2, AnswerBody::Single { result: Err("taint".into()), index: 0 }).await;
    answer(&env, 2, fits()).await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 7 Err(\"taint\") 0"]);
}

#[actix::test]
async fn without_an_answer_it_does_not_fit() {
    let env = Env::new();
    let registration = Registration { extra: map(&[("shim.predicates.timeout", "2s")]), ..with(Predicates::Single) };
    env.try_register(registration).await.expect("registered");
    let _stream = env.stream(0).await;
    env.settle().await;
    env.told();
    env.deliver(vec![question(1, "k", "n")]).await;
    env.pass(Duration::from_millis(1_900)).await;
    assert_eq!(env.told(), [""; 0]);
    env.pass(Duration::from_millis(200)).await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 1 Err(\"the shim did not answer within 2s\") 0"]);
}

#[actix::test]
async fn the_time_to_answer_begins_when_the_shim_is_asked() {
    // API section 2: a line with a question is held until the allocations before it are Done.
    let env = Env::new();
    let registration = Registration { extra: map(&[("shim.predicates.timeout", "2s")]), ..with(Predicates::Single) };
    env.try_register(registration).await.expect("registered");
    env.deliver(vec![question(1, "k", "n"), question(2, "l", "n")]).await;
    env.settle().await;
    env.told();
    env.pass(Duration::from_secs(10)).await;
    assert_eq!(env.told(), [""; 0], "no stream is there yet");
    let stream = env.stream(0).await;
    stream.progress.held.hold(1);
    stream.progress.held.hold(2);
    env.pass(Duration::from_secs(8)).await;
    assert_eq!(env.told(), [""; 0], "the door holds both");
    assert!(stream.progress.held.release(1, tokio::time::Instant::now()));
    env.pass(Duration::from_millis(1_900)).await;
    assert_eq!(env.told(), [""; 0]);
    env.pass(Duration::from_millis(200)).await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 1 Err(\"the shim did not answer within 2s\") 0"]);
    env.pass(Duration::from_secs(62)).await;
    assert_eq!(env.told(), ["[rm-1]default#1 unanswered 2"], "the allocation before it is never done");
    assert!(!stream.progress.held.release(2, tokio::time::Instant::now()), "it need not be sent any more");
    assert_eq!(env.state().await, RmState::Running);
}

#[actix::test]
async fn a_stream_that_goes_on_behind_a_held_question_leaves_it_open_to_nobody() {
    let env = asking(Predicates::Single).await;
    let first = env.stream(0).await;
    env.told();
    env.deliver(vec![question(1, "k", "n"), question(2, "l", "n"), node(1)]).await;
    first.progress.held.hold(2);
    let _second = env.stream(3).await;
    env.settle().await;
    let told = ["[rm-1]default#1 unanswered 2", "[rm-1]default#1 resend after 3"];
    assert_eq!(env.told(), told, "the shim may still answer the first");
    answer(&env, 1, fits()).await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 1 Ok(()) 0"]);
}

#[actix::test]
async fn nobody_answers_what_is_open_when_the_stream_is_lost_and_nothing_is_placed() {
    let env = asking(Predicates::Single).await;
    let stream = env.stream(0).await;
    env.told();
    env.deliver(vec![question(1, "k", "n")]).await;
    stream.lose().await;
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 unanswered 1"]);
    assert_eq!(env.state().await, RmState::Paused, "whatever is left of the grace period");
    assert!(!env.may_place());
    env.deliver(vec![question(2, "k", "n")]).await;
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 unanswered 2"], "on its way when the stream was lost");
    let _stream = env.stream(0).await;
    assert_eq!(env.state().await, RmState::Running);
    assert!(env.may_place());
}

#[actix::test]
async fn a_question_about_several_nodes_is_one_line() {
    let env = asking(Predicates::Batch).await;
    let mut stream = env.stream(0).await;
    env.told();
    let Outgoing::Ask(first) = question(1, "k", "n1") else { panic!("a question") };
    let first = Question { more: vec!["n2".into()], ..first };
    env.deliver(vec![Outgoing::Ask(first), question(3, "l", "n1")]).await;
    let sizes: Vec<usize> = stream.lines().iter().map(|line| line.payload.entries()).collect();
    assert_eq!(sizes, [2, 1]);
    answer(&env, 1, AnswerBody::Batch(vec![Err("taint".into()), Ok(())])).await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 1 Ok(()) 0"]);
}

#[actix::test]
async fn unconstrained_asks_share_a_line() {
    let env = asking(Predicates::Several).await;
    let mut stream = env.stream(0).await;
    env.told();
    let Outgoing::Ask(third) = question(3, "m", "n1") else { panic!("a question") };
    let third = Outgoing::Ask(Question { together: false, ..third });
    env.deliver(vec![question(1, "k", "n1"), question(2, "l", "n1"), third]).await;
    let lines = stream.lines();
    assert!(matches!(lines[0].payload, Payload::AskSeveral(_)) && matches!(lines[1].payload, Payload::AskBatch(_)));
    answer(&env, lines[0].seq, AnswerBody::Several(vec![vec![Ok(())], vec![Err("taint".into())]])).await;
    let answers = ["[rm-1]default#1 answer 1 Ok(()) 0", "[rm-1]default#1 answer 2 Err(\"taint\") 0"];
    assert_eq!(env.told(), answers);
    assert_eq!(env.info().await.predicates, Predicates::Several);
}

#[actix::test]
async fn constrained_asks_of_several_partitions_take_turns() {
    // R5.27
    let env = Env::new();
    let part = |name: &str| format!("  - name: {name}\n    queues: [{{name: root}}]\n");
    let config = format!("partitions:\n{}{}", part("default"), part("other"));
    env.try_register(Registration { config, ..with(Predicates::Single) }).await.expect("registered");
    let mut stream = env.stream(0).await;
    env.settle().await;
    let terms = "PredicateTerms(PredicateTerms { constrained: true, nodes: 1, shared: true })";
    let told = env.told();
    for name in ["default", "other"] {
        assert!(told.iter().any(|line| *line == format!("[rm-1]{name}#1 {terms}")), "{told:?}");
    }
    env.say("[rm-1]other", &[TurnEffect::Wanted]).await;
    env.say("[rm-1]default", &[TurnEffect::Wanted]).await;
    assert_eq!(env.told(), ["[rm-1]other#1 Turn(Yours)"]);
    env.say("[rm-1]other", &[TurnEffect::Over]).await;
    assert_eq!(env.told(), ["[rm-1]default#1 Turn(Yours)"]);
    let Outgoing::Ask(asked) = question(1, "k", "n") else { panic!("a question") };
    env.deliver(vec![Outgoing::Ask(Question { together: false, ..asked })]).await;
    answer(&env, stream.lines()[0].seq, fits()).await;
    assert_eq!(env.told(), ["[rm-1]other#1 Turn(Seen(1))"]);
    env.say("[rm-1]other", &[TurnEffect::Changed, TurnEffect::Seen(1)]).await;
    assert_eq!(env.told(), ["[rm-1]default#1 Turn(Elsewhere)", "[rm-1]default#1 answer 1 Ok(()) 0"]);
}

#[actix::test]
async fn the_partitions_learn_how_many_nodes_a_question_names_and_who_takes_turns() {
    // R5.27
    let env = Env::new();
    let extra = map(&[("shim.predicates.constrained", "false")]);
    env.try_register(Registration { extra, ..with(Predicates::Batch) }).await.expect("registered");
    let _stream = env.stream(0).await;
    env.settle().await;
    let terms = "[rm-1]default#1 PredicateTerms(PredicateTerms { constrained: false, nodes: 256, shared: false })";
    assert_eq!(env.told(), ["[rm-1]default#1 start", terms, "[rm-1]default#1 ask true"]);
}

#[actix::test]
async fn a_shim_that_was_asked_on_the_extension_stream_is_asked_on_the_next() {
    let env = asking(Predicates::Off).await;
    env.told();
    let want = || Want::All { after: Some(0), predicates: Some(Predicates::Single) };
    let mut plain = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    assert_eq!(env.told(), [""; 0], "plain streams carry no questions");
    for turn in 0..3 {
        let extension = env.open_as("grpc-extension", want()).await.expect("opened");
        env.settle().await;
        let told: Vec<String> = env.told().into_iter().filter(|line| line.contains("ask")).collect();
        assert_eq!(told, ["[rm-1]default#1 ask true"][..usize::from(turn == 0)], "said once");
        extension.lose().await;
        assert_eq!(env.state().await, RmState::Paused, "nobody can be asked");
        plain = env.open(Want::Plain(Kind::Allocation)).await.expect("opened");
        env.settle().await;
        assert_eq!(env.state().await, RmState::Paused, "nor on a plain stream");
    }
    assert!(env.told().iter().all(|line| !line.contains("ask")));
    // It does not come back, and the shim goes on with plain streams.
    env.pass(Duration::from_millis(1_100)).await;
    assert!(env.told().contains(&"[rm-1]default#1 ask false".to_owned()));
    assert_eq!(env.state().await, RmState::Running);
    env.deliver(vec![question(1, "k", "n")]).await;
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 answer 1 Ok(()) 0"]);
    drop(plain);
}

#[actix::test]
async fn a_shim_that_loses_all_its_streams_is_asked_as_the_next_one_says() {
    let env = asking(Predicates::Off).await;
    let want = Want::All { after: Some(0), predicates: Some(Predicates::Single) };
    env.open_as("grpc-extension", want).await.expect("opened").lose().await;
    env.told();
    env.pass(Duration::from_secs(100)).await;
    assert_eq!(
        (env.told(), env.state().await),
        (vec![], RmState::Paused),
        "nothing is placed, so nothing is to be said"
    );
    let _all = env.stream(0).await;
    env.settle().await;
    let told: Vec<String> = env.told().into_iter().filter(|line| line.contains("ask")).collect();
    assert_eq!(told, ["[rm-1]default#1 ask false"], "a stream without that word goes by the registration");
    assert_eq!(env.state().await, RmState::Running);
}

#[actix::test]
async fn questions_cost_no_callback_credits() {
    let env = Env::new();
    let registration = Registration { extra: map(&[("rm.undeliveredCallbacks", "1")]), ..with(Predicates::Single) };
    env.try_register(registration).await.expect("registered");
    let _stream = env.stream(0).await;
    env.deliver((0..5).map(|id| question(id, "k", "n")).collect()).await;
    assert!(env.may_place());
}

#[actix::test]
async fn state_dumps_are_asked_of_shims_that_offer_them() {
    let env = asking(Predicates::Off).await;
    let _stream = env.stream(0).await;
    let none = env.rm().addr.send(StateDump).await.expect("alive");
    assert_eq!(none, None);
    env.try_register(Registration { state_dump: true, ..with(Predicates::Off) }).await.expect("registered");
    let mut stream = env.stream(0).await;
    let asked = env.rm().addr.send(StateDump);
    let asked = actix::spawn(asked);
    env.settle().await;
    let line = stream.lines().remove(0);
    assert!(matches!(line.payload, Payload::StateDump));
    answer(&env, line.seq, AnswerBody::Dump(Ok("{\"pods\":1}".into()))).await;
    assert_eq!(asked.await.expect("no panic").expect("alive"), Some(Ok("{\"pods\":1}".into())));
    let silent = env.rm().addr.send(StateDump).await.expect("alive");
    assert_eq!(silent, Some(Err("no answer from the shim within 5s".into())));
    let asked = actix::spawn(env.rm().addr.send(StateDump));
    env.settle().await;
    answer(&env, line.seq + 1, AnswerBody::Dump(Ok("late".into()))).await;
    answer(&env, line.seq + 2, AnswerBody::Dump(Ok("in time".into()))).await;
    assert_eq!(asked.await.expect("no panic").expect("alive"), Some(Ok("in time".into())));
}

#[actix::test]
async fn answers_of_a_session_that_is_over_are_for_nobody() {
    let env = asking(Predicates::Single).await;
    let _stream = env.stream(0).await;
    env.deliver(vec![question(7, "k", "n")]).await;
    env.try_register(with(Predicates::Single)).await.expect("registered again");
    let _stream = env.stream(0).await;
    env.deliver_of(2, vec![question(8, "k", "n")]).await;
    env.told();
    // Lines are numbered anew: the same number is another question.
    answer_of(&env, 1, 1, fits()).await;
    assert_eq!(env.told(), [""; 0]);
    answer_of(&env, 2, 1, fits()).await;
    assert_eq!(env.told(), ["[rm-1]default#2 answer 8 Ok(()) 0"]);
}
