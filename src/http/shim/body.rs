//! Bodies of requests up to a size, most of them JSON.

use std::{
    fmt::{self, Display},
    marker::PhantomData,
    time::Duration,
};

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    rt,
    web::{self, Bytes, BytesMut, Data, Payload},
};
use futures::{Stream, StreamExt as _};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    http::{
        doors::Doors,
        long,
        problem::Problem,
        turns::{PIECE, give_way},
    },
    messages::underway::{Coming, Crowded},
};

/// A body whose sender is silent for so long is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// A body that has not come whole by then is given up.
pub(super) const WHOLE: Duration = Duration::from_secs(60);
/// Drain time-out for rejected bodies.
const DRAIN: Duration = Duration::from_secs(2);
/// A piece of a rejected body counts as so many bytes at least.
const LEAST: usize = 1 << 10;

/// Why there is no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is larger than this.
    #[error("the body is larger than {0} bytes: send several smaller requests, or raise http.maxBodyBytes")]
    Large(usize),
    /// It is larger than this, which no setting raises.
    #[error("the body is larger than {0} bytes, which is the most that this request takes")]
    Long(usize),
    /// It comes too slowly.
    #[error(
        "the body did not come in time: {} s may pass without any of it, and {} s until all of it is there",
        SILENCE.as_secs(),
        WHOLE.as_secs()
    )]
    Slow,
    /// There is no room for it now.
    #[error(transparent)]
    Crowded(#[from] Crowded),
    /// It breaks off.
    #[error("the body could not be read: {0}")]
    Broken(String),
}

impl Unread {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Unread::Large(_) | Unread::Long(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Unread::Slow => StatusCode::REQUEST_TIMEOUT,
            Unread::Crowded(_) => StatusCode::TOO_MANY_REQUESTS,
            Unread::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Problem {
        Problem::new(unread.status(), unread.to_string())
    }
}

/// Reads the body; 415 where it is declared as something else than JSON, or as compressed, 413 where it is too large.
pub async fn read(request: &HttpRequest, payload: Payload, max: usize) -> Result<Bytes, Problem> {
    let declared = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let refused = if let Some(kind) = declared(header::CONTENT_TYPE).filter(|kind| !is_json(kind)) {
        format!("Content-Type {kind}: send application/json")
    } else if let Some(coding) = declared(header::CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        format!("Content-Encoding {coding}: send the body as it is")
    } else {
        return Ok(bytes(request, payload, max).await?);
    };
    discard(payload).await;
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, refused))
}

fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Reads a body of any kind; 413 where it is too large.
pub async fn bytes(request: &HttpRequest, payload: Payload, max: usize) -> Result<Bytes, Unread> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > max as u64) {
        return Err(Unread::Large(max));
    }
    collect(payload, max, coming(request)).await
}

/// Reads the body of a request that is never longer than this, whatever `http.maxBodyBytes` gives to others.
pub async fn short(request: &HttpRequest, payload: Payload, most: usize) -> Result<Bytes, Unread> {
    bytes(request, payload, most).await.map_err(|unread| match unread {
        Unread::Large(most) => Unread::Long(most),
        other => other,
    })
}

/// The body or message of this request, among all that are on their way; `None` where nobody counts them.
pub fn coming(request: &HttpRequest) -> Option<Coming> {
    let doors = request.app_data::<Data<Doors>>()?;
    let (caller, address) = long::caller(request);
    Some(doors.limits().underway.begin(caller.key(address).into()))
}

/// Collects the pieces of a body. Nothing is kept for what has not come yet, whatever was declared.
async fn collect<E: Display>(
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin + 'static,
    max: usize,
    coming: Option<Coming>,
) -> Result<Bytes, Unread> {
    let read = gather(&mut pieces, max, coming).await;
    if read.is_err() {
        leave(pieces);
    }
    read
}

async fn gather<E: Display>(
    pieces: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    max: usize,
    mut coming: Option<Coming>,
) -> Result<Bytes, Unread> {
    let end = Instant::now() + WHOLE;
    let mut body = BytesMut::new();
    loop {
        give_way(PIECE).await;
        let piece = timeout_at(end.min(Instant::now() + SILENCE), pieces.next()).await;
        let Some(piece) = piece.map_err(|_| Unread::Slow)? else {
            let body = body.freeze();
            return Ok(match coming {
                Some(coming) => Bytes::from_owner(Counted { body, _coming: coming }),
                None => body,
            });
        };
        let piece = piece.map_err(|error| Unread::Broken(error.to_string()))?;
        if body.len() + piece.len() > max {
            return Err(Unread::Large(max));
        }
        if let Some(coming) = &mut coming {
            coming.more(piece.len(), max)?;
        }
        body.extend_from_slice(&piece);
    }
}

/// A body that has come: it counts among those under way until nobody needs it any more.
struct Counted {
    body: Bytes,
    _coming: Coming,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Drains the body of a rejected request, as long as it is small and comes soon, so that the connection can be used again.
pub async fn discard<E>(mut payload: impl Stream<Item = Result<Bytes, E>> + Unpin + 'static) {
    let read = async {
        let mut left: usize = 1 << 20;
        while let Some(Ok(chunk)) = payload.next().await {
            // Small pieces are work as well.
            left = left.saturating_sub(chunk.len().max(LEAST));
            if left == 0 {
                return false;
            }
            give_way(PIECE).await;
        }
        true
    };
    if !timeout(DRAIN, read).await.unwrap_or(false) {
        leave(payload);
    }
}

/// The body of a request that may be read, with what was found out before; that of any other is drained.
pub async fn unless<T, P>(checked: Result<T, P>, payload: Payload) -> Result<(T, Payload), P> {
    match checked {
        Ok(found) => Ok((found, payload)),
        Err(problem) => {
            discard(payload).await;
            Err(problem)
        }
    }
}

/// What is left of a body goes with the connection, which ends when the answer is sent and this is still there. Of a body in
/// chunks that nobody holds any more all is decoded, however much comes.
fn leave(payload: impl Stream + 'static) {
    rt::spawn(async move {
        sleep(DRAIN).await;
        drop(payload);
    });
}

/// Texts from this length on are read beside the door's thread, which others wait for.
const LONG: usize = 256 << 10;

/// What a text says.
pub async fn said<T, E>(text: Bytes, read: impl FnOnce(&[u8]) -> Result<T, E> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let read = if text.len() < LONG { read(&text) } else { web::block(move || read(&text)).await? };
    read.map_err(Into::into)
}

/// A JSON body of this form.
pub fn json<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, Problem> {
    let wrong = |error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not {form}: {error}"));
    serde_json::from_slice(body).map(|Object(read)| read).map_err(wrong)
}

/// What is read from an object only: a derived `Deserialize` takes a list of the values of its fields as well.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        from.deserialize_map(Fields(PhantomData))
    }
}

/// A list of objects, for `deserialize_with`.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|Object(one)| one).collect())
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible, rc::Rc, sync::Arc};

    use futures::stream;
    use tokio::task::LocalSet;

    use super::*;
    use crate::messages::underway::{OF_ONE, Underway};

    /// Pieces of these sizes, each after a pause.
    fn pieces(pause: u64, sizes: &[usize]) -> impl Stream<Item = Result<Bytes, Infallible>> + Unpin + use<> {
        let piece = move |size: usize| async move {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            Ok(Bytes::from(vec![b'x'; size]))
        };
        stream::iter(sizes.to_vec()).then(piece).boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_comes_in_time_or_is_given_up() {
        LocalSet::new().run_until(comes_in_time()).await;
    }

    async fn comes_in_time() {
        assert_eq!(collect(pieces(9, &[3, 4]), 7, None).await, Ok(Bytes::from_static(b"xxxxxxx")));
        assert_eq!(collect(pieces(0, &[3, 4]), 6, None).await, Err(Unread::Large(6)));
        assert_eq!(collect(pieces(11, &[1]), 9, None).await, Err(Unread::Slow), "silent");
        let begun = Instant::now();
        assert_eq!(collect(pieces(9, &[1; 100]), 1000, None).await, Err(Unread::Slow), "never whole");
        assert_eq!(begun.elapsed(), WHOLE);
        assert!(Unread::Slow.to_string().contains("10 s may pass without any of it, and 60 s"), "{}", Unread::Slow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_counts_until_it_is_dropped() {
        let underway = Arc::<Underway>::default();
        let coming = || Some(underway.begin("one".into()));
        let body = collect(pieces(0, &[3, 4]), 7, coming()).await.expect("read");
        assert_eq!(body, "xxxxxxx");
        let part = body.slice(2..);
        drop(body);
        let mut next = underway.begin("one".into());
        assert!(matches!(next.more(OF_ONE + 1, 7), Err(Crowded::Own(..))), "what is there counts");
        drop(part);
        assert_eq!(next.more(OF_ONE + 1, 7), Ok(()));
    }

    #[tokio::test]
    async fn between_small_pieces_others_have_their_turn() {
        let crumbs = || stream::iter((0..10_000).map(|_| Ok::<_, Infallible>(Bytes::from_static(b" "))));
        let turns = Rc::new(Cell::new(0));
        let local = LocalSet::new();
        let other = turns.clone();
        local.spawn_local(async move {
            loop {
                other.set(other.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let read = local.spawn_local(async move { collect(crumbs(), 10_000, None).await.map(|body| body.len()) });
        assert_eq!(local.run_until(read).await.expect("no panic"), Ok(10_000));
        assert!(turns.get() >= 70, "{}", turns.get());
        turns.set(0);
        let taken = Rc::new(Cell::new(0));
        let counted = taken.clone();
        let crumbs = crumbs().inspect(move |_| counted.set(counted.get() + 1));
        local.run_until(discard(crumbs)).await;
        assert_eq!(taken.get(), 1_024, "these are enough");
        assert!(turns.get() >= 7, "{}", turns.get());
        assert_eq!(Rc::strong_count(&taken), 2, "the rest is held until the connection ends");
    }

    #[test]
    fn a_list_is_no_object() {
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Order {
            reason: Option<String>,
            #[serde(default)]
            overwrite: bool,
        }
        let read = |text: &str| json::<Order>(text.as_bytes(), "an order").map_err(|problem| problem.detail);
        let order = Order { reason: Some("r".to_owned()), overwrite: true };
        assert_eq!(read(r#" {"overwrite": true, "reason": "r"}"#), Ok(order));
        for (wrong, why) in [
            (r#"["r", true]"#, "the body is not an order: invalid type: sequence, expected an object"),
            (r#"{"why": "r"}"#, "unknown field `why`"),
            (r#"{"reason": "r", "reason": "s"}"#, "duplicate field `reason`"),
            ("{} {}", "trailing characters"),
            ("null", "expected an object"),
        ] {
            let fault = read(wrong).unwrap_err();
            assert!(fault.contains(why), "{wrong}: {fault}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_wants_is_not_waited_for() {
        let begun = Instant::now();
        let local = LocalSet::new();
        local.run_until(discard(pieces(30, &[1]))).await;
        assert_eq!(begun.elapsed(), DRAIN);
        local.run_until(discard(pieces(0, &[1 << 19; 9]))).await;
    }
}
