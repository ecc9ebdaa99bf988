//! A second partition that gets what the first gets, as bytes: from the records of a log, and begun again from a snapshot now and then. It
//! makes the same effects with the same digests, and its own snapshots are the same bytes.

use callboard::domain::{
    Partition,
    alloc::Alloc,
    digest::Digest,
    effect::Effect,
    log::{Input, Reader, Step, Writer},
    partition::Done,
    resources::Types,
    types::AllocIx,
};

/// Steps between two snapshots, one after the other: no rhythm of a world meets always the same.
const PAUSES: [u32; 7] = [1, 3, 17, 2, 31, 1, 11];

/// See the module.
pub struct Twin {
    partition: Partition,
    types: Types,
    writer: Writer,
    snapshots: usize,
    /// Steps until the next.
    pause: u32,
}

impl Twin {
    pub fn of(partition: &Partition) -> Twin {
        let (partition, types) = (partition.clone(), Types::default());
        Twin { partition, types, writer: Writer::new(), snapshots: 0, pause: 1 }
    }

    /// The other made this step, with these effects, and is so now.
    pub fn follow(&mut self, other: &Partition, step: &Step, effects: &[Effect]) {
        self.writer.begin();
        self.writer.step(step);
        let mut made = Vec::new();
        for read in Reader::new(self.writer.bytes(), &self.types) {
            self.partition.replay(read.expect("what was written is read"), &mut made);
        }
        assert_same(effects, &made, step);
        self.pause -= 1;
        if self.pause == 0 {
            self.pause = PAUSES[self.snapshots % PAUSES.len()];
            self.snapshots += 1;
            let saved = other.save();
            assert!(self.partition.save() == saved, "the snapshots differ after {step:?}");
            check_cuts(other, step);
            self.partition = reloaded(other, &saved, &self.types);
        }
    }
}

/// One decision more is the same wherever what is tried in vain for it is cut.
fn check_cuts(partition: &Partition, step: &Step) {
    let (mut whole, mut cut) = (partition.clone(), partition.clone());
    let (mut effects, mut made) = (Vec::new(), Vec::new());
    let expected = whole.schedule_at_once(1, step.at, &mut effects);
    let done = loop {
        let done = cut.schedule(1, step.at, &mut made);
        if !done.cut {
            break done;
        }
    };
    assert_eq!(done.made, expected, "after {step:?}");
    assert_same(&effects, &made, step);
    assert!(whole.save() == cut.save(), "cut into calls it is another partition after {step:?}");
}

/// The partition that was saved, after a look at what its bytes do not show.
fn reloaded(partition: &Partition, saved: &[u8], types: &Types) -> Partition {
    let again = Partition::load(saved, types).expect("what was saved is read");
    assert!(again.save() == saved, "saved again it is the same");
    assert_eq!(again.audit(), []);
    for (one, other) in partition.apps.values().zip(again.apps.values()) {
        assert!(one.by_seq.iter().eq(other.by_seq.iter()), "asks of {}", one.id);
    }
    let rows = |partition: &Partition| -> Vec<(AllocIx, Alloc)> {
        let row = |row: &Alloc| Alloc { changed: Default::default(), ..row.clone() };
        partition.allocs.iter().map(|(at, kept)| (at, row(kept))).collect()
    };
    assert_eq!(format!("{:?}", rows(partition)), format!("{:?}", rows(&again)));
    assert!(
        rows(&again).iter().all(|(at, row)| again.apps[row.app].by_seq.range(row.seq..).next() == Some((&row.seq, at)))
    );
    assert_eq!(format!("{:?}", partition.ugm), format!("{:?}", again.ugm));
    again
}

fn assert_same(effects: &[Effect], made: &[Effect], step: &Step) {
    let digest = |effects: &[Effect]| {
        let mut digest = Digest::default();
        digest.add(effects);
        digest.finish()
    };
    assert_eq!(format!("{effects:?}"), format!("{made:?}"), "after {step:?}");
    assert_eq!(digest(effects), digest(made), "after {step:?}");
}

/// One step of a partition, and of one that is read from its snapshot: both do the same. Gives what [`Partition::replay`] gives.
pub fn step(partition: &mut Partition, step: Step, effects: &mut Vec<Effect>) -> Done {
    let types = Types::default();
    let mut again = reloaded(partition, &partition.save(), &types);
    let (mut own, mut made) = (Vec::new(), Vec::new());
    let result = partition.replay(step.clone(), &mut own);
    assert_eq!(result, again.replay(step.clone(), &mut made));
    assert_same(&own, &made, &step);
    assert!(partition.save() == again.save(), "the snapshots differ after {step:?}");
    effects.extend(own);
    result
}

/// A call of [`Partition::schedule`].
pub fn schedule(max: usize) -> Input {
    Input::Schedule { max }
}
