//! Answers of the shim to predicate questions and state dump requests.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data, Path, Payload},
};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    body::{self, Object},
    once::same_epoch,
    requests::{accepted, enter},
};
use crate::{
    http::{doors::Doors, problem::Problem},
    messages::rm::{Answer, AnswerBody, Answers, verdict},
    si::{
        decode,
        intake::{self, Fault},
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(deserialize_with = "id")]
    id: u64,
    #[serde(default)]
    success: bool,
    #[serde(default)]
    message: String,
    #[serde(default)]
    index: i32,
    errors: Option<Vec<String>>,
    answers: Option<Vec<Object<OfAsk>>>,
    json: Option<String>,
    error: Option<String>,
}

/// About one of several asks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfAsk {
    errors: Vec<String>,
}

/// POST `/si/v1/rm/{rmID}/answers`.
pub async fn answers(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let ((handle, gate), payload) = body::unless(enter(&doors, &rm, "an answer"), payload).await?;
    let ((), payload) = body::unless(same_epoch(&request, &rm, &gate), payload).await?;
    let text = body::read(&request, payload, doors.limits().body()).await?;
    handle.addr.do_send(Answers { epoch: gate.epoch, answers: read(text, gate.shared.max_items).await? });
    Ok(accepted())
}

/// One answer or a list of them, with at most so many entries altogether.
pub async fn read(text: Bytes, limit: usize) -> Result<Vec<Answer>, Problem> {
    body::said(text, move |text| parse(text, limit)).await
}

fn parse(text: &[u8], limit: usize) -> Result<Vec<Answer>, Fault> {
    intake::bounded(text, limit)?;
    let list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let given: Vec<Object<Given>> = if list { decode::message(text)? } else { vec![decode::message(text)?] };
    Ok(given.into_iter().map(|Object(given)| answer(given)).collect())
}

fn answer(given: Given) -> Answer {
    let batch = |errors: Vec<String>| errors.into_iter().map(verdict).collect();
    let body = if let Some(answers) = given.answers {
        AnswerBody::Several(answers.into_iter().map(|Object(of)| batch(of.errors)).collect())
    } else if let Some(errors) = given.errors {
        AnswerBody::Batch(batch(errors))
    } else if let Some(error) = given.error {
        AnswerBody::Dump(Err(error))
    } else if let Some(json) = given.json {
        AnswerBody::Dump(Ok(json))
    } else {
        let refused = || match given.message {
            none if none.is_empty() => "the shim refused it without a reason".to_owned(),
            message => message,
        };
        AnswerBody::Single { result: if given.success { Ok(()) } else { verdict(refused()) }, index: given.index }
    };
    Answer { id: given.id, body }
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(u64),
        Text(String),
    }
    match Id::deserialize(deserializer) {
        Ok(Id::Number(id)) => Ok(id),
        Ok(Id::Text(text)) => text.parse().map_err(|_| D::Error::custom("not the number of a question")),
        Err(_) => Err(D::Error::custom("not the number of a question")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn body(value: Value) -> AnswerBody {
        parse(value.to_string().as_bytes(), 100).expect("valid").remove(0).body
    }

    #[test]
    fn forms() {
        let single = json!({"id": 7, "success": true, "message": "", "index": 2});
        assert_eq!(body(single), AnswerBody::Single { result: Ok(()), index: 2 });
        let refused = json!({"id": "7", "success": false, "message": "taint"});
        assert_eq!(body(refused), AnswerBody::Single { result: Err("taint".into()), index: 0 });
        let batch = json!({"id": 7, "errors": ["", "taint"]});
        assert_eq!(body(batch), AnswerBody::Batch(vec![Ok(()), Err("taint".into())]));
        let several = json!({"id": 7, "answers": [{"errors": [""]}, {"errors": ["taint", ""]}]});
        assert_eq!(body(several), AnswerBody::Several(vec![vec![Ok(())], vec![Err("taint".into()), Ok(())]]));
        assert_eq!(body(json!({"id": 7, "json": "{}"})), AnswerBody::Dump(Ok("{}".into())));
        let list = parse(br#" [{"id": 1, "success": true}, {"id": 2}]"#, 100).expect("valid");
        assert_eq!(list.iter().map(|answer| answer.id).collect::<Vec<_>>(), [1, 2]);
    }

    #[actix_web::test]
    async fn long_ones_are_read_beside_the_thread_of_the_door() {
        for (bytes, is_long) in [(10, false), (1 << 20, true)] {
            let text = json!({"id": 7, "message": "x".repeat(bytes)}).to_string();
            let mut reading = std::pin::pin!(read(text.into(), 100));
            assert_eq!(futures::poll!(&mut reading).is_pending(), is_long, "{bytes}");
            if is_long {
                assert_eq!(reading.await.expect("valid").len(), 1);
            }
        }
    }

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| match parse(text.as_bytes(), 100).expect_err("refused") {
            Fault::Malformed(malformed) => malformed,
            large => panic!("{large:?}"),
        };
        let fault = refused(r#"[{"id": 1}, {"id": "x"}]"#);
        assert_eq!(fault.field.as_deref(), Some("[1].id"));
        assert!(fault.detail.contains("\"x\""), "{fault:?}");
        assert!(refused(r#"{"id": 1, "colour": 2}"#).detail.contains("colour"));
        assert!(refused(r#"{"success": true}"#).detail.contains("id"));
        let many = format!(r#"{{"id": 1, "errors": [{}""]}}"#, r#""","#.repeat(100));
        assert_eq!(parse(many.as_bytes(), 100).expect_err("refused"), Fault::Large(intake::too_many_items(100)));
    }
}
