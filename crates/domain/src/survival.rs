//! How long something of a kind goes on, from those that ended and from those that still go on: without the latter, what lasts long
//! would be missing, since it has not ended yet.

/// One that was watched from one age to another, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its age when it came into sight.
    pub from: i64,
    /// And when it was last seen.
    pub to: i64,
    /// It ended then.
    pub ended: bool,
}

/// The part of all that gets beyond each age.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Ages at which some ended, in order, and the part that got beyond.
    steps: Vec<(i64, f64)>,
}

impl Curve {
    /// Of those that were at risk at an age, a part ended: the logarithm of what is left goes down by that (Nelson and Aalen). Those
    /// that came into sight late count from then on.
    pub fn of(spans: &[Span]) -> Curve {
        let mut ends: Vec<i64> = spans.iter().filter(|span| span.ended).map(|span| span.to).collect();
        let mut begun: Vec<i64> = spans.iter().map(|span| span.from).collect();
        let mut gone: Vec<i64> = spans.iter().map(|span| span.to).collect();
        for ages in [&mut ends, &mut begun, &mut gone] {
            ages.sort_unstable();
        }
        let (mut steps, mut hazard) = (Vec::new(), 0.0);
        let mut rest = &ends[..];
        while let Some(age) = rest.first().copied() {
            let together = rest.partition_point(|end| *end <= age);
            // At an age of zero they come into sight.
            let watched = begun.partition_point(|from| *from < age.max(1)) - gone.partition_point(|to| *to < age);
            for one in 0..together.min(watched) {
                hazard += 1.0 / (watched - one) as f64;
            }
            steps.push((age, f64::exp(-hazard)));
            rest = &rest[together..];
        }
        Curve { steps }
    }

    /// The part that gets beyond an age.
    pub fn beyond(&self, age: i64) -> f64 {
        let at = self.steps.partition_point(|(step, _)| *step <= age);
        at.checked_sub(1).map_or(1.0, |at| self.steps[at].1)
    }

    /// The age that such a part (0 to 1) of those that got beyond `age` does not get beyond; `None`: nobody knows, so many have not
    /// ended yet.
    pub fn quantile(&self, age: i64, share: f64) -> Option<i64> {
        let left = self.beyond(age) * (1.0 - share);
        let later = &self.steps[self.steps.partition_point(|(step, _)| *step <= age)..];
        let at = later.partition_point(|(_, part)| *part > left);
        later.get(at).map(|(step, _)| *step)
    }

    /// The greatest age at which one ended.
    pub fn longest(&self) -> i64 {
        self.steps.last().map_or(0, |(age, _)| *age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(to: i64) -> Span {
        Span { from: 0, to, ended: true }
    }

    #[test]
    fn where_all_ended_it_is_their_lengths() {
        let curve = Curve::of(&(1..=100).map(ended).collect::<Vec<_>>());
        let near = |age: i64, share: f64, wanted: i64| {
            let found = curve.quantile(age, share).unwrap();
            assert!((found - wanted).abs() <= 1, "{share} of those that got to {age}: {found}, not {wanted}");
        };
        [(0.1, 10), (0.5, 50), (0.9, 90)].into_iter().for_each(|(share, wanted)| near(0, share, wanted));
        near(50, 0.5, 75);
        assert_eq!((curve.quantile(100, 0.5), curve.longest()), (None, 100));
        let same = Curve::of(&[ended(7); 10]);
        assert_eq!([0.1, 0.9].map(|share| same.quantile(0, share)), [Some(7); 2]);
    }

    #[test]
    fn those_that_go_on_are_not_forgotten() {
        // Half of them end after 10, the others go on, and are at 100 now.
        let going = Span { from: 0, to: 100, ended: false };
        let spans: Vec<Span> = [ended(10); 20].into_iter().chain([going; 20]).collect();
        let curve = Curve::of(&spans);
        assert_eq!((curve.quantile(0, 0.4), curve.quantile(0, 0.6)), (Some(10), None));
        assert!((curve.beyond(10) - 0.5).abs() < 0.03);
    }

    #[test]
    fn those_that_were_seen_late_count_from_then_on() {
        // Five of which nothing was known before they were 50 say nothing of earlier ages.
        let late = Span { from: 50, to: 60, ended: true };
        let spans: Vec<Span> = (1..=10).map(|n| ended(10 * n)).chain([late; 5]).collect();
        let (curve, without) = (Curve::of(&spans), Curve::of(&spans[..10]));
        assert_eq!(curve.beyond(50), without.beyond(50));
        assert!(curve.beyond(60) < without.beyond(60));
        assert_eq!(Curve::of(&[]).quantile(0, 0.5), None);
    }
}
