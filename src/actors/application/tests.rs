//! One application's conversation on a paused clock: messages in, messages out. A release is in one of four states (nothing
//! waits, it waits, it was sent again, it is overdue), and each message that there is has a row for each of them.

use std::sync::{Arc, Mutex};

use super::*;
use crate::messages::{
    budget::Budget,
    clock::Clock,
    partition::{Patience, UnconfirmedSums},
};

/// Notes what the partition is to send again.
struct Partition(Arc<Mutex<Vec<String>>>);

impl Actor for Partition {
    type Context = Context<Self>;
}

impl Handler<SendAgain> for Partition {
    type Result = ();

    fn handle(&mut self, msg: SendAgain, _ctx: &mut Self::Context) {
        self.0.lock().unwrap().extend(msg.0.iter().map(|release| release.key.to_string()));
    }
}

struct Rig {
    actor: Addr<ApplicationActor>,
    sums: Rc<Unconfirmed>,
    sent: Arc<Mutex<Vec<String>>>,
}

/// How far a release is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Nothing,
    Waits,
    SentAgain,
    Overdue,
}

const STATES: [State; 4] = [State::Nothing, State::Waits, State::SentAgain, State::Overdue];

impl Rig {
    fn new() -> Rig {
        let sent = Arc::default();
        let partition = Partition(Arc::clone(&sent)).start();
        let patience = Patience { warn_after: Duration::from_secs(60), ..Patience::default() };
        let sums = Rc::new(Unconfirmed::new("[rm-1]default".into(), Clock::default(), Budget::new(1, 1), patience));
        let actor = ApplicationActor::new("app-1".into(), sums.clone(), partition.recipient()).start();
        Rig { actor, sums, sent }
    }

    /// With a release of ph1 in this state.
    async fn within(state: State) -> Rig {
        let rig = Rig::new();
        if state != State::Nothing {
            rig.begin("ph1").await;
        }
        match state {
            State::Nothing | State::Waits => {}
            State::SentAgain => rig.pass(11).await,
            State::Overdue => rig.pass(61).await,
        }
        rig.sent();
        rig
    }

    async fn settle(&self) {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }

    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            self.settle().await;
        }
    }

    async fn begin(&self, key: &str) {
        let (key, app) = (key.into(), "app-1".into());
        let termination = Termination::PlaceholderReplaced;
        let release = Released { key, app, termination, message: "".into(), confirm: true };
        self.actor
            .send(AppUpdate {
                effects: vec![(self.sums.clock.now(), AppEffect::Unconfirmed { release })],
                status: None,
            })
            .await
            .unwrap();
    }

    async fn end(&self, key: &str) {
        let (app, termination) = ("app-1".into(), Termination::PlaceholderReplaced);
        self.actor
            .send(AppUpdate {
                effects: vec![(Nanos::ZERO, AppEffect::Confirmed { app, key: key.into(), termination })],
                status: None,
            })
            .await
            .unwrap();
    }

    async fn carried(&self, line: u64, key: &str) {
        let releases = vec![(key.into(), Termination::PlaceholderReplaced)];
        self.actor.send(Carried { line, releases }).await.unwrap();
    }

    async fn resend(&self, after: u64) {
        self.actor.send(ResendUnconfirmed { after }).await.unwrap();
        self.settle().await;
    }

    /// What was sent again since the last call.
    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }

    /// Key, age in seconds and number of sendings of all that waits.
    async fn waits(&self) -> Vec<(String, i64, u32)> {
        let rows = self.actor.send(GetUnconfirmed).await.unwrap();
        rows.iter().map(|row| (row.release.key.to_string(), row.age.as_secs(), row.sent)).collect()
    }

    fn sums(&self) -> UnconfirmedSums {
        self.sums.sums()
    }

    /// Number of releases that wait, and of those that are overdue.
    fn counts(&self) -> (u64, u64) {
        let sums = self.sums();
        (sums.by_type.values().sum(), sums.overdue)
    }
}

fn age(state: State) -> i64 {
    match state {
        State::Nothing | State::Waits => 0,
        State::SentAgain => 11,
        State::Overdue => 61,
    }
}

/// Sendings by then: after 10, 30 and 70 seconds, rounded up to whole ones.
fn sendings(state: State) -> u32 {
    match state {
        State::Nothing => 0,
        State::Waits => 1,
        State::SentAgain => 2,
        State::Overdue => 3,
    }
}

#[actix::test]
async fn each_state_has_its_numbers() {
    tokio::time::pause();
    for state in STATES {
        let rig = Rig::within(state).await;
        let row = ("ph1".to_owned(), age(state), sendings(state));
        let waits = state != State::Nothing;
        assert_eq!(rig.waits().await, if waits { vec![row] } else { vec![] }, "{state:?}");
        assert_eq!(rig.counts(), (waits.into(), (state == State::Overdue).into()), "{state:?}");
        assert_eq!(rig.sums().oldest.is_some(), waits);
        assert_eq!(rig.sums.waiting().len(), usize::from(waits));
    }
}

#[actix::test]
async fn it_begins() {
    tokio::time::pause();
    for state in STATES {
        let rig = Rig::within(state).await;
        rig.begin("ph1").await;
        // Said twice it is still one release, which waits since it was first sent.
        assert_eq!(rig.waits().await, [("ph1".to_owned(), age(state), sendings(state) + 1)], "{state:?}");
        assert_eq!(rig.counts().0, 1, "{state:?}");
        assert!(rig.sent().is_empty(), "the partition sent it itself");
    }
}

#[actix::test]
async fn what_a_start_found_waits_since_it_was_first_sent() {
    tokio::time::pause();
    let rig = Rig::new();
    let (app, termination) = ("app-1".into(), Termination::PlaceholderReplaced);
    let release = Released { key: "ph1".into(), app, termination, message: "".into(), confirm: true };
    let since = rig.sums.clock.now().minus(Nanos::from_secs(55));
    let found = UnconfirmedRelease { release, since, age: Nanos::ZERO, sent: 3 };
    let again = found.clone();
    rig.actor.send(Unheard(vec![found])).await.unwrap();
    assert_eq!((rig.waits().await, rig.counts()), (vec![("ph1".to_owned(), 55, 3)], (1, 0)));
    // No line carries it unless that is told.
    rig.carried(4, "ph1").await;
    rig.resend(3).await;
    assert!(rig.sent().is_empty());
    rig.pass(6).await;
    assert_eq!(rig.counts(), (1, 1));
    rig.pass(5).await;
    assert_eq!(rig.sent(), ["ph1"]);
    rig.end("ph1").await;
    assert_eq!(rig.counts(), (0, 0));
    let rig = Rig::new();
    rig.actor.send(Unheard(vec![again])).await.unwrap();
    rig.resend(0).await;
    assert_eq!(rig.sent(), ["ph1"], "its line is gone");
}

#[actix::test]
async fn it_is_confirmed_or_void() {
    tokio::time::pause();
    for state in STATES {
        let rig = Rig::within(state).await;
        rig.end("ph1").await;
        rig.end("ph1").await;
        assert!(rig.waits().await.is_empty());
        assert_eq!((rig.counts(), rig.sums().oldest), ((0, 0), None), "{state:?}");
        assert!(rig.sums.waiting().is_empty());
        rig.pass(300).await;
        assert!(rig.sent().is_empty(), "{state:?}: nothing is sent again");
        // A new one of the same key is another release.
        rig.begin("ph1").await;
        assert_eq!(rig.waits().await, [("ph1".to_owned(), 0, 1)]);
    }
}

#[actix::test]
async fn it_falls_due() {
    tokio::time::pause();
    // The first time after 10 s, then after twice as long each time, at most after two minutes.
    let rig = Rig::within(State::Waits).await;
    let mut times = Vec::new();
    for second in 1..=600 {
        rig.pass(1).await;
        times.extend(rig.sent().into_iter().map(|_| second));
    }
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((10..=11).contains(&times[0]), "{times:?}");
    let wanted = [20, 40, 80, 120, 120, 120];
    assert_eq!(gaps.len(), wanted.len(), "{times:?}");
    assert!(gaps.iter().zip(wanted).all(|(gap, wanted)| (wanted..=wanted + 1).contains(gap)), "{times:?}");
    // Nothing falls due where nothing waits.
    let rig = Rig::within(State::Nothing).await;
    rig.pass(600).await;
    assert!(rig.sent().is_empty());
}

#[actix::test]
async fn the_shim_comes_back() {
    tokio::time::pause();
    for state in STATES {
        let rig = Rig::within(state).await;
        let waits = state != State::Nothing;
        // A line is still to come that carries it.
        rig.resend(9).await;
        assert!(rig.sent().is_empty(), "{state:?}");
        rig.carried(5, "ph1").await;
        rig.resend(5).await;
        assert_eq!(rig.sent().len(), usize::from(waits), "{state:?}");
        assert_eq!(rig.waits().await.first().map_or(0, |row| row.2), sendings(state) + u32::from(waits), "{state:?}");
        // What its new stream is about to get in any case is not doubled.
        rig.resend(5).await;
        assert!(rig.sent().is_empty(), "{state:?}");
        rig.carried(8, "ph1").await;
        rig.resend(7).await;
        assert!(rig.sent().is_empty(), "{state:?}");
    }
}

#[actix::test]
async fn what_has_not_reached_the_shim_is_not_sent_again() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.sums.budget.set_handed(4);
    rig.begin("ph1").await;
    rig.pass(20).await;
    assert!(rig.sent().is_empty(), "no line carries it yet");
    rig.carried(5, "ph1").await;
    rig.pass(39).await;
    assert!(rig.sent().is_empty(), "its stream does not read");
    assert_eq!(rig.waits().await, [("ph1".to_owned(), 59, 1)]);
    assert_eq!(rig.counts(), (1, 0));
    rig.pass(2).await;
    assert_eq!(rig.counts(), (1, 1), "operators are told all the same");
    rig.sums.budget.set_handed(5);
    rig.pass(11).await;
    assert_eq!(rig.sent(), ["ph1"]);
}

#[actix::test]
async fn it_is_sent_again_in_time() {
    tokio::time::pause();
    for (millis, most) in [(100, 200), (1_000, 1_200), (2_500, 2_850), (10_000, 11_100)] {
        let rig = Rig::new();
        let resend_after = Duration::from_millis(millis);
        rig.sums.patience.set(Patience { resend_after, ..rig.sums.patience.get() });
        tokio::time::advance(Duration::from_millis(337)).await;
        rig.begin("ph1").await;
        rig.carried(5, "ph1").await;
        rig.sums.budget.set_handed(5);
        let began = tokio::time::Instant::now();
        while rig.sent().is_empty() {
            tokio::time::advance(Duration::from_millis(10)).await;
            rig.settle().await;
        }
        let took = began.elapsed().as_millis() as u64;
        assert!((millis..=most).contains(&took), "{millis} ms: after {took} ms");
    }
}

#[actix::test]
async fn many_are_sent_together_the_oldest_first() {
    tokio::time::pause();
    let rig = Rig::new();
    for key in ["c", "a", "b"] {
        rig.begin(key).await;
        rig.pass(1).await;
    }
    rig.pass(600).await;
    let sent = rig.sent();
    assert_eq!(sent[..3], ["c", "a", "b"]);
    assert_eq!(rig.counts(), (3, 3));
    assert_eq!(rig.sums().named.iter().map(|row| &*row.release.key).collect::<Vec<_>>(), ["c", "a", "b"]);
    assert!(rig.sums().named[0].age > Nanos::from_secs(600) && rig.sums().named[0].sent > 5);
}

#[actix::test]
async fn patience_may_change_while_something_waits() {
    tokio::time::pause();
    let rig = Rig::within(State::Waits).await;
    rig.sums.patience.set(Patience {
        resend_after: Duration::from_secs(300),
        warn_after: Duration::from_secs(5),
        ..Patience::default()
    });
    rig.actor.send(LookAnew).await.unwrap();
    rig.pass(11).await;
    assert_eq!((rig.sent().len(), rig.counts()), (1, (1, 1)), "what was to be sent earlier is");
    rig.pass(290).await;
    assert!(rig.sent().is_empty(), "longer than two minutes where that is wanted");
    rig.pass(20).await;
    assert_eq!(rig.sent().len(), 1);
    let set = async |resend, warn| {
        let [resend_after, warn_after] = [resend, warn].map(Duration::from_secs);
        rig.sums.patience.set(Patience { resend_after, warn_after, ..Patience::default() });
        rig.actor.send(LookAnew).await.unwrap();
        rig.settle().await;
        (rig.sent().len(), rig.counts())
    };
    // It is 321 s old by now, and was sent three times, the last of them some ten seconds ago.
    assert_eq!(set(300, 3_600).await, (0, (1, 0)), "it is not late any more");
    assert_eq!(set(3, 60).await, (0, (1, 1)), "it is late, and was sent less than twelve seconds ago");
    rig.pass(5).await;
    assert_eq!(rig.sent().len(), 1, "shorter holds for what waits, too");
}

#[actix::test]
async fn the_application_goes() {
    tokio::time::pause();
    for state in STATES {
        let rig = Rig::within(state).await;
        rig.actor.send(AppGone(None)).await.unwrap();
        rig.settle().await;
        assert_eq!((rig.counts(), rig.sums.waiting().len()), ((0, 0), 0), "{state:?}");
        assert!(!rig.actor.connected());
        rig.pass(600).await;
        assert!(rig.sent().is_empty(), "{state:?}");
    }
}

/// Whoever waits, in each state that an application may have.
#[actix::test]
async fn waiters_hear_of_what_they_wait_for() {
    use crate::messages::wait::{Answer, AppStatus, Condition, EndWaits, Kind, Target, Wait, Withdraw};
    let rig = Rig::new();
    let status = |state, began, allocated, waits| AppUpdate {
        effects: Vec::new(),
        status: Some(AppStatus { state, began, allocated, waits, refused: None }),
    };
    let target = Target { kind: Kind::Application, name: "app-1".into() };
    let wait = |id, condition| {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let sent = rig.actor.send(Wait { id, target: target.clone(), condition, answer });
        async {
            sent.await.unwrap();
            // Not to be awaited itself.
            [answered]
        }
    };
    let met = |state: &str| Ok(Answer::Met { state: state.to_owned() });
    rig.actor.send(status(AppState::Accepted, false, false, true)).await.unwrap();
    let [mut running] = wait(1, Condition::Running).await;
    let [mut placed] = wait(2, Condition::Placed).await;
    let [mut completed] = wait(3, Condition::Completed).await;
    rig.actor.send(status(AppState::Running, true, true, true)).await.unwrap();
    assert_eq!(running.try_recv(), met("Running"));
    assert!(placed.try_recv().is_err(), "something of it waits");
    rig.actor.send(status(AppState::Running, true, true, false)).await.unwrap();
    assert_eq!(placed.try_recv(), met("Running"));
    // The time of one is over.
    let [mut impatient] = wait(4, Condition::Completed).await;
    rig.actor.send(Withdraw { id: 4, target: target.clone() }).await.unwrap();
    let why = "it is Running".to_owned();
    assert_eq!(impatient.try_recv(), Ok(Answer::NotYet { state: "Running".to_owned(), why }));
    // It fails: it will never be completed.
    rig.actor.send(status(AppState::Failing, true, false, false)).await.unwrap();
    let why = "it fails".to_owned();
    assert_eq!(completed.try_recv(), Ok(Answer::Never { state: "Failing".to_owned(), why }));
    // It has run, whatever became of it.
    let [mut began] = wait(5, Condition::Running).await;
    assert_eq!(began.try_recv(), met("Failing"));
    rig.actor.send(status(AppState::Completing, true, false, false)).await.unwrap();
    let [mut completed] = wait(6, Condition::Completed).await;
    let [mut placed] = wait(7, Condition::Placed).await;
    rig.actor.send(AppGone(Some(AppState::Completed))).await.unwrap();
    assert_eq!((completed.try_recv(), placed.try_recv()), (met("Completed"), Ok(Answer::Gone)));
    let rig = Rig::new();
    let (answer, mut answered) = tokio::sync::oneshot::channel();
    rig.actor.send(Wait { id: 1, target, condition: Condition::Running, answer }).await.unwrap();
    rig.actor.send(EndWaits).await.unwrap();
    assert!(matches!(answered.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Closed)));
}

#[test]
fn a_release_that_is_sent_again_leaves_time_for_others() {
    let waits = |first| [1, 2, 3, 40].map(|sent| super::wait(first, sent).0 / 1_000_000);
    assert_eq!(waits(Duration::from_secs(10)), [10_000, 20_000, 40_000, 120_000]);
    assert_eq!(waits(Duration::from_nanos(1)), [100, 200, 400, 120_000]);
    assert_eq!(waits(Duration::from_secs(600)), [600_000; 4]);
}
