//! Answers of the shim to predicate questions and state dump requests.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Path, Payload},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{
    body,
    requests::{accepted, enter},
};
use crate::{
    http::{problem::Problem, server::Doors},
    messages::rm::{Answer, AnswerBody, Answers},
    si::decode::{self, Malformed},
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
    json: Option<String>,
    error: Option<String>,
}

/// POST `/si/v1/rm/{rmID}/answers`.
pub async fn answers(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let (handle, _) = match enter(&doors, &rm, "an answer") {
        Ok(entered) => entered,
        Err(problem) => {
            body::discard(payload).await;
            return Err(problem);
        }
    };
    let text = body::read(&request, payload, doors.max_body).await?;
    let value: Value = decode::message(&text)?;
    handle.addr.do_send(Answers(read(&value)?));
    Ok(accepted())
}

/// One answer or a list of them.
pub fn read(value: &Value) -> Result<Vec<Answer>, Malformed> {
    let given: Vec<Given> = match value {
        Value::Array(_) => decode::from_value(value)?,
        _ => vec![decode::from_value(value)?],
    };
    Ok(given.into_iter().map(answer).collect())
}

fn answer(given: Given) -> Answer {
    let body = if let Some(errors) = given.errors {
        AnswerBody::Batch(errors.into_iter().map(verdict).collect())
    } else if let Some(error) = given.error {
        AnswerBody::Dump(Err(error))
    } else if let Some(json) = given.json {
        AnswerBody::Dump(Ok(json))
    } else {
        let refused = || match given.message.as_str() {
            "" => "the shim refused it without a reason",
            message => message,
        };
        AnswerBody::Single { result: if given.success { Ok(()) } else { Err(refused().into()) }, index: given.index }
    };
    Answer { id: given.id, body }
}

/// An empty error means that it fits.
pub fn verdict(error: String) -> Result<(), std::sync::Arc<str>> {
    if error.is_empty() { Ok(()) } else { Err(error.into()) }
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
    use serde_json::json;

    use super::*;

    fn body(value: Value) -> AnswerBody {
        read(&value).expect("valid").remove(0).body
    }

    #[test]
    fn forms() {
        let single = json!({"id": 7, "success": true, "message": "", "index": 2});
        assert_eq!(body(single), AnswerBody::Single { result: Ok(()), index: 2 });
        let refused = json!({"id": "7", "success": false, "message": "taint"});
        assert_eq!(body(refused), AnswerBody::Single { result: Err("taint".into()), index: 0 });
        let batch = json!({"id": 7, "errors": ["", "taint"]});
        assert_eq!(body(batch), AnswerBody::Batch(vec![Ok(()), Err("taint".into())]));
        assert_eq!(body(json!({"id": 7, "json": "{}"})), AnswerBody::Dump(Ok("{}".into())));
        let list = read(&json!([{"id": 1, "success": true}, {"id": 2}])).expect("valid");
        assert_eq!(list.iter().map(|answer| answer.id).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn faults_are_named() {
        let fault = read(&json!([{"id": 1}, {"id": "x"}])).expect_err("refused");
        assert_eq!(fault.field.as_deref(), Some("[1].id"));
        assert!(fault.detail.contains("\"x\""), "{fault:?}");
        assert!(read(&json!({"id": 1, "colour": 2})).expect_err("refused").detail.contains("colour"));
        assert!(read(&json!({"success": true})).expect_err("refused").detail.contains("id"));
    }
}
