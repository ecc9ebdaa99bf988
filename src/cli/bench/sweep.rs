//! How the cost of one allocation grows with what a server holds: a plot and its figures.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::{
    Depth,
    measure::Outcome,
    shapes::{Kind, Shape, ShapeId},
};

/// Asks that are measured at each point, where the axis does not need others.
const ASKS: usize = 20_000;
/// Applications where users grow, so that each of the most has one.
const APPS: usize = 100_000;
/// Asks that preempt.
const PREEMPTING: usize = 1_000;
/// Width of the plot, and height of a row of curves.
const SIZE: (u32, u32) = (1200, 320);
/// Curves in a row.
const COLUMNS: usize = 3;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Nodes of the cluster.
    Nodes,
    /// Leaf queues.
    Queues,
    /// Applications over which the same number of asks is spread.
    Apps,
    /// Users whose use is counted.
    Users,
    /// Queues with limits of their own.
    Limits,
    /// Resource types of each node and ask.
    Types,
    /// Allocations that run already.
    Running,
    /// Asks of higher priority that fit no node.
    Waiting,
    /// Allocations that preemption may choose from.
    Victims,
    /// Messages that the session has had.
    Age,
}

impl Axis {
    /// All of them.
    pub const ALL: [Axis; 10] = [
        Axis::Nodes,
        Axis::Queues,
        Axis::Apps,
        Axis::Users,
        Axis::Limits,
        Axis::Types,
        Axis::Running,
        Axis::Waiting,
        Axis::Victims,
        Axis::Age,
    ];

    /// Its title.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Nodes => "nodes",
            Axis::Queues => "queues",
            Axis::Apps => "applications",
            Axis::Users => "users",
            Axis::Limits => "queues with limits",
            Axis::Types => "resource types",
            Axis::Running => "allocations running",
            Axis::Waiting => "unschedulable asks waiting",
            Axis::Victims => "possible victims",
            Axis::Age => "messages of the session",
        }
    }

    /// Its points.
    pub const fn points(self) -> [usize; 5] {
        match self {
            Axis::Nodes => [500, 2_000, 10_000, 40_000, 100_000],
            Axis::Queues => [2, 20, 200, 2_000, 10_000],
            Axis::Apps => [10, 100, 1_000, 10_000, 100_000],
            Axis::Users => [1, 10, 100, 10_000, 100_000],
            Axis::Limits => [1, 10, 100, 300, 1_000],
            Axis::Types => [2, 5, 10, 20, 30],
            Axis::Running => [0, 10_000, 100_000, 300_000, 1_000_000],
            Axis::Waiting => [0, 100, 1_000, 10_000, 100_000],
            Axis::Victims => [1_000, 5_000, 20_000, 50_000, 100_000],
            Axis::Age => [0, 10_000, 100_000, 1_000_000, 10_000_000],
        }
    }

    /// Where it is measured: a session is what only a door has.
    pub const fn depth(self) -> Depth {
        match self {
            Axis::Age => Depth::Grpc,
            _ => Depth::Core,
        }
    }

    /// The workload at a point: S1 with fewer asks, grown in one direction, preemption for its victims, and one ask at a time for
    /// the age of the session.
    pub fn shape(self, point: usize) -> Option<Shape> {
        let base = Shape { asks: ASKS, ..ShapeId::S1.shape()? };
        Some(match self {
            // The asks fill a part of a large cluster only, so that their number is the same everywhere.
            Axis::Nodes => Shape { nodes: point, ..base },
            Axis::Queues => Shape { queues: point, ..base },
            Axis::Apps => Shape { queues: 10, apps: point / 10, users: 10, asks: APPS, ..base },
            Axis::Users => Shape { queues: 100, apps: APPS / 100, users: point, asks: APPS, limits: true, ..base },
            Axis::Limits => Shape { queues: point, users: 50, queue_limits: true, ..base },
            // Memory and vcore are two of them.
            Axis::Types => Shape { types: point - 2, ..base },
            Axis::Running => Shape { running: point, ..base },
            Axis::Waiting => Shape { kind: Kind::Behind(point), queues: 1, ..base },
            Axis::Victims => Shape { kind: Kind::Preempting(point), nodes: 1_000, asks: PREEMPTING, ..base },
            Axis::Age => Shape { kind: Kind::OneByOne, lines: point, ..base },
        })
    }
}

/// One measured point.
pub struct Point {
    /// What grows.
    pub axis: Axis,
    /// Value on it.
    pub value: usize,
    /// Microseconds of CPU per allocation; of wall time where there is no CPU figure.
    pub micros: f64,
}

impl Point {
    /// Of an outcome.
    pub fn of(axis: Axis, value: usize, outcome: &Outcome) -> Point {
        let rate = outcome.allocations_per_cpu_second.unwrap_or(outcome.allocations_per_second);
        Point { axis, value, micros: 1e6 / rate.max(1e-9) }
    }
}

/// The curves as SVG, readable on light and dark pages.
pub fn svg(points: &[Point]) -> Result<String> {
    let mut svg = String::new();
    draw(points, &mut svg).map_err(|e| anyhow!("the plot cannot be drawn: {e}"))?;
    Ok(svg)
}

fn draw(points: &[Point], svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
    // Grey of middle brightness, since an image in a page does not know the page's colours.
    let ink = RGBColor(0x7d, 0x85, 0x90);
    let blue = RGBColor(0x3b, 0x82, 0xf6);
    let measured: Vec<Axis> = Axis::ALL.into_iter().filter(|axis| points.iter().any(|p| p.axis == *axis)).collect();
    let rows = measured.len().div_ceil(COLUMNS).max(1);
    let root = SVGBackend::with_string(svg, (SIZE.0, SIZE.1 * rows as u32)).into_drawing_area();
    let text = ("sans-serif", 15).into_font().color(&ink);
    for (area, axis) in root.split_evenly((rows, COLUMNS)).iter().zip(measured) {
        // Each has its own height: what one allocation costs by preemption is another thing.
        let of_axis = points.iter().filter(|point| point.axis == axis);
        let top = of_axis.map(|point| point.micros).fold(1.0, f64::max) * 1.15;
        // A logarithmic axis has no zero.
        let line: Vec<(f64, f64)> =
            points.iter().filter(|p| p.axis == axis).map(|p| (p.value.max(1) as f64, p.micros)).collect();
        let (Some(first), Some(last)) = (line.first(), line.last()) else { continue };
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(56)
            .build_cartesian_2d((first.0..last.0.max(first.0 * 10.0)).log_scale(), 0.0..top)?;
        chart
            .configure_mesh()
            .axis_style(ink)
            .bold_line_style(ink.mix(0.3))
            .light_line_style(ink.mix(0.0))
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_desc(axis.name())
            .y_desc("µs of CPU per allocation")
            .x_labels(5)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.1}"))
            .draw()?;
        chart.draw_series(LineSeries::new(line.iter().copied(), blue.stroke_width(3)))?;
        chart.draw_series(line.iter().map(|point| Circle::new(*point, 4, blue.filled())))?;
    }
    root.present()?;
    Ok(())
}

/// The figures of the plot as Markdown, with how much dearer the dearest point is than the cheapest.
pub fn markdown(points: &[Point]) -> String {
    let mut text =
        String::from("| grown | from | to | µs of CPU per allocation | apart |\n| --- | ---: | ---: | --- | ---: |\n");
    for axis in Axis::ALL {
        let of: Vec<&Point> = points.iter().filter(|point| point.axis == axis).collect();
        let (Some(first), Some(last)) = (of.first(), of.last()) else { continue };
        let micros: Vec<String> = of.iter().map(|point| format!("{:.1}", point.micros)).collect();
        let dearest = of.iter().map(|point| point.micros).fold(0.0, f64::max);
        let cheapest = of.iter().map(|point| point.micros).fold(f64::INFINITY, f64::min);
        let (name, from, to, micros) = (axis.name(), first.value, last.value, micros.join(" → "));
        text.push_str(&format!("| {name} | {from} | {to} | {micros} | {:.1} |\n", dearest / cheapest.max(1e-9)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_and_figures_show_every_axis() {
        let points: Vec<Point> = Axis::ALL
            .into_iter()
            .flat_map(|axis| axis.points().map(|value| Point { axis, value, micros: 4.0 }))
            .collect();
        let (svg, text) = (svg(&points).unwrap(), markdown(&points));
        for axis in Axis::ALL {
            assert!(svg.contains(axis.name()) && text.contains(axis.name()));
            assert!(axis.points().iter().all(|point| axis.shape(*point).is_some()));
        }
        assert!(text.contains("| nodes | 500 | 100000 | 4.0 → 4.0"), "{text}");
    }
}
