//! Shapes at core depth, scaled down so that a run takes a minute: the partition's actor through its messages.
//! `callboard bench` measures them at full size.

use std::time::Duration;

use callboard::cli::bench::{
    in_process,
    shapes::{Shape, ShapeId},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn shapes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    let sizes = [
        (ShapeId::S1, 1_000, 10_000),
        (ShapeId::S2, 1_000, 10_000),
        (ShapeId::S3, 2_000, 2_000),
        (ShapeId::S6, 1_000, 1_000),
        (ShapeId::S8, 1_000, 4_000),
        (ShapeId::S9, 10_000, 50_000),
    ];
    for (id, nodes, asks) in sizes {
        let Some(shape) = id.shape() else { continue };
        let shape = Shape { nodes, asks, queues: shape.queues.min(200), ..shape };
        group.throughput(Throughput::Elements(asks as u64));
        group.bench_function(id.name(), |bencher| {
            bencher.iter_custom(|times| {
                let seconds = |_| {
                    let outcomes = in_process(&shape, Duration::ZERO).unwrap_or_else(|e| panic!("{id:?}: {e:#}"));
                    outcomes.iter().map(|outcome| outcome.seconds).sum::<f64>()
                };
                Duration::from_secs_f64((0..times).map(seconds).sum())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, shapes);
criterion_main!(benches);
