//! When an ask will be placed, in figures and in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::{
    partition::when::{Unknown, When},
    types::Nanos,
    words::{either, plural},
};

/// How far ahead is looked.
pub const HORIZON: Nanos = Nanos::from_secs(86_400);

/// An estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhenPlaced")]
#[serde(rename_all = "camelCase")]
pub struct WhenView {
    /// Half of the runs place it within so many seconds; left out where that is not known, or not within a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<f64>,
    /// And nine of ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_seconds: Option<f64>,
    /// The same in words, and what it rests on.
    pub text: String,
    /// Runs forward.
    pub runs: usize,
    /// Allocations that run now.
    pub running: usize,
    /// Those of which is known how long such ones last.
    pub known: usize,
    /// Those that have lasted longer than all of their kinds that ended: how long they go on is a guess from their age.
    #[serde(default)]
    pub outlasting: usize,
    /// Allocations that ended and are remembered.
    pub ended: u64,
}

impl WhenView {
    /// The view of an estimate.
    pub fn of(when: &When) -> WhenView {
        let seconds = |time: Option<Nanos>| time.map(|time| time.0 as f64 / 1e9);
        WhenView {
            p50_seconds: seconds(when.p50),
            p90_seconds: seconds(when.p90),
            text: text(when),
            runs: when.runs,
            running: when.running,
            known: when.known,
            outlasting: when.outlasting,
            ended: when.ended,
        }
    }
}

fn text(when: &When) -> String {
    let When { p50, p90, unknown, runs, running, known, outlasting, ended, waited, preempts } = when;
    match unknown {
        Some(Unknown::Never) => {
            return "Not known: nothing that ends by itself within a day makes room for it.".to_owned();
        }
        Some(Unknown::TooLarge) => {
            return "Never, as it is: no node that it may use is large enough for it.".to_owned();
        }
        Some(Unknown::AboveLimit) => {
            return "Never, as it is: it is larger than the limit that holds it back.".to_owned();
        }
        Some(Unknown::ResourceManager) => {
            return "Not known: it is up to the resource manager, which has to confirm that others have ended."
                .to_owned();
        }
        Some(Unknown::Refused) => {
            return "Not known: it is up to the resource manager, which refused it where it could be placed."
                .to_owned();
        }
        Some(Unknown::TooLittle) => {
            return format!(
                "Not known: of {} that {}, {known} {} of a kind of which enough have ended to say how long such ones last.",
                plural(*running, "allocation"),
                either(running, "runs", "run"),
                either(known, "is", "are")
            );
        }
        Some(Unknown::NoTime) => return "Not known: there was not enough time to find out.".to_owned(),
        None => {}
    }
    if let (Some(preempts), Some(wait)) = (preempts, p50) {
        let how = match preempts {
            0 => "nothing has to end for it".to_owned(),
            &some => format!(
                "{} {} to end first",
                plural(some, "allocation"),
                either(&some, "is preempted for it, and has", "are preempted for it, and have")
            ),
        };
        return match *wait {
            Nanos::ZERO => format!("Soon: {how}."),
            wait => format!("Probably after {}: {how}.", span(wait)),
        };
    }
    let range = match (p50, p90) {
        (Some(Nanos::ZERO), Some(Nanos::ZERO)) => return "At once.".to_owned(),
        (Some(p50), Some(p90)) => format!("Probably within {}, nine times of ten within {}", span(*p50), span(*p90)),
        (Some(p50), None) => format!("Probably within {}, but it may take more than a day", span(*p50)),
        (None, _) => "Probably not within a day".to_owned(),
    };
    let waits = match waited {
        0 => "who comes later is not counted".to_owned(),
        _ => format!(
            "{} like it had to wait before {} placed",
            plural(*waited, "ask"),
            either(waited, "it was", "they were")
        ),
    };
    let guessed = match outlasting {
        0 => String::new(),
        some => format!(
            "{some} of these {} lasted longer than any such that ended, so that only {} how long {} on; ",
            either(some, "has", "have"),
            either(some, "its age tells", "their age tells"),
            either(some, "it goes", "they go"),
        ),
    };
    format!(
        "{range}: {} forward with the lengths of {} that ended ({known} of the {running} that run {} of a known kind; {guessed}{waits}).",
        plural(*runs, "run"),
        plural(*ended, "allocation"),
        either(known, "is", "are")
    )
}

/// A time for people: `40 s`, `5 min`, `2.5 h`.
fn span(time: Nanos) -> String {
    let seconds = time.0 as f64 / 1e9;
    match seconds {
        ..120.0 => format!("{:.0} s", seconds.ceil()),
        120.0..7200.0 => format!("{:.0} min", (seconds / 60.0).ceil()),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_in_words() {
        let secs = |secs| Some(Nanos::from_secs(secs));
        let when = When { p50: secs(90), p90: secs(600), runs: 20, running: 4, known: 3, ended: 50, ..When::default() };
        let view = WhenView::of(&when);
        let expected = "Probably within 90 s, nine times of ten within 10 min: 20 runs forward with the lengths of 50 allocations that ended \
                        (3 of the 4 that run are of a known kind; who comes later is not counted).";
        assert_eq!((view.text.as_str(), view.p90_seconds), (expected, Some(600.0)));
        let guess = WhenView::of(&When { outlasting: 1, ..when.clone() });
        let expected = "3 of the 4 that run are of a known kind; 1 of these has lasted longer than any such that ended, so that only its age tells \
                        how long it goes on; who comes later is not counted).";
        assert!(guess.text.ends_with(expected) && guess.outlasting == 1, "{}", guess.text);
        let of = |p50, p90, unknown| WhenView::of(&When { p50, p90, unknown, ..when.clone() }).text;
        assert!(of(secs(9000), None, None).starts_with("Probably within 2.5 h, but it may take more than a day"));
        assert!(of(None, None, None).starts_with("Probably not within a day"));
        assert_eq!(of(secs(0), secs(0), None), "At once.");
        assert!(of(None, None, Some(Unknown::TooLarge)).starts_with("Never, as it is"));
        assert!(of(None, None, Some(Unknown::AboveLimit)).starts_with("Never, as it is"));
        let waits = WhenView::of(&When { preempts: Some(2), p50: secs(5), p90: secs(5), ..when.clone() });
        assert_eq!(waits.text, "Probably after 5 s: 2 allocations are preempted for it, and have to end first.");
        let soon = WhenView::of(&When { preempts: Some(1), p50: secs(0), p90: secs(0), ..when.clone() });
        assert_eq!(soon.text, "Soon: 1 allocation is preempted for it, and has to end first.");
        for unknown in [Unknown::Never, Unknown::TooLittle, Unknown::NoTime, Unknown::ResourceManager, Unknown::Refused]
        {
            assert!(of(None, None, Some(unknown)).starts_with("Not known: "));
        }
    }
}
