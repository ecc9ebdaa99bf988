//! Patience with the shim: the grace period, the time in Paused, answers to questions.

use std::time::Duration;

use actix::prelude::*;
use tokio::time::Instant;

use super::{RmActor, questions::Expired, streams::Stream};
use crate::messages::rm::RmState;

/// A connection that is made again brings its streams one after the other.
const COMES_BACK: Duration = Duration::from_secs(1);
/// Between two lines of the log that say that questions could not be asked.
const TOLD: Duration = Duration::from_secs(600);

/// Running timers.
#[derive(Default)]
pub struct Timers {
    grace: Option<SpawnHandle>,
    pause: Option<SpawnHandle>,
    unasked: Option<SpawnHandle>,
    question: Option<(Instant, SpawnHandle)>,
    unasked_told: Option<Instant>,
}

impl Timers {
    /// Starts the grace period.
    pub fn grace(&mut self, time: Duration, ctx: &mut Context<RmActor>) {
        let handle = ctx.run_later(time, |actor, ctx| {
            actor.timers.grace = None;
            if actor.streams.none() && actor.life.state() == RmState::Running {
                actor.pause("no stream was open when the grace period ended", ctx);
            }
        });
        restart(&mut self.grace, Some(handle), ctx);
    }

    /// Nothing but a stream keeps the session Running.
    pub fn grace_is_over(&self) -> bool {
        self.grace.is_none()
    }

    /// Starts the time in Paused, or ends it.
    pub fn pause(&mut self, time: Option<Duration>, ctx: &mut Context<RmActor>) {
        let handle = time.map(|time| {
            ctx.run_later(time, move |actor, ctx| {
                actor.timers.pause = None;
                if actor.life.state() == RmState::Paused {
                    actor.stop(format!("it was Paused for {time:?}"), ctx);
                }
            })
        });
        restart(&mut self.pause, handle, ctx);
    }

    /// Starts the time in which the stream on which the shim was asked may come back, while plain ones are open; or ends it.
    pub fn unasked(&mut self, waits: bool, ctx: &mut Context<RmActor>) {
        if !waits || self.unasked.is_none() {
            let handle = waits.then(|| ctx.run_later(COMES_BACK, |actor, ctx| actor.ask_no_more(ctx)));
            restart(&mut self.unasked, handle, ctx);
        }
    }

    /// The session is over: no timer of it may fire.
    pub fn clear(&mut self, ctx: &mut Context<RmActor>) {
        restart(&mut self.grace, None, ctx);
        restart(&mut self.pause, None, ctx);
        restart(&mut self.unasked, None, ctx);
        if let Some((_, handle)) = self.question.take() {
            ctx.cancel_future(handle);
        }
    }
}

fn restart(slot: &mut Option<SpawnHandle>, next: Option<SpawnHandle>, ctx: &mut Context<RmActor>) {
    if let Some(before) = std::mem::replace(slot, next) {
        ctx.cancel_future(before);
    }
}

impl RmActor {
    /// The stream on which the shim was asked did not come back: with plain ones it is asked as it registered.
    fn ask_no_more(&mut self, ctx: &mut Context<Self>) {
        self.timers.unasked = None;
        if let Some(session) = &mut self.session {
            session.ask(session.predicates);
            self.note_manner(ctx);
            self.run_or_pause(Some("it is not asked about nodes any more"), ctx);
            self.pump(ctx);
        }
    }

    /// Arms the timer for the question that is given up next.
    pub(super) fn arm_questions(&mut self, ctx: &mut Context<Self>) {
        let next = self.session.as_mut().and_then(|session| session.questions.deadline());
        match (&self.timers.question, next) {
            (Some((armed, _)), Some(at)) if *armed <= at => {}
            (_, None) => {}
            (_, Some(at)) => {
                let handle = ctx.run_later(at.saturating_duration_since(Instant::now()), |actor, ctx| {
                    actor.timers.question = None;
                    actor.expire_questions();
                    actor.arm_questions(ctx);
                });
                if let Some((_, before)) = self.timers.question.replace((at, handle)) {
                    ctx.cancel_future(before);
                }
            }
        }
    }

    fn expire_questions(&mut self) {
        let Some(session) = &mut self.session else { return };
        let (now, timeout) = (Instant::now(), session.settings.predicates);
        let held = self.streams.all.as_ref().map(Stream::held);
        let Expired { late, unasked } = session.questions.expire(now, timeout, held);
        for (partition, answers) in late {
            session.send_answers(partition, answers);
        }
        if !unasked.is_empty() && self.timers.unasked_told.is_none_or(|told| now >= told + TOLD) {
            self.timers.unasked_told = Some(now);
            tracing::warn!(
                code = "questions-unasked",
                rm = &*self.id,
                questions = unasked.len(),
                "the shim could not be asked about nodes: it does not handle what comes before the questions"
            );
        }
        for (partition, questions) in unasked {
            session.unanswered(&partition, questions);
        }
    }
}
