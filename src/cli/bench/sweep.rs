//! How the cost of one allocation grows with nodes, queues and unschedulable asks: a plot and its figures.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::{
    measure::Outcome,
    shapes::{Kind, Shape, ShapeId},
};

/// Asks that are measured at each point.
const ASKS: usize = 20_000;
const SIZE: (u32, u32) = (1200, 380);

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Nodes of the cluster.
    Nodes,
    /// Leaf queues.
    Queues,
    /// Asks of higher priority that fit no node.
    Waiting,
}

impl Axis {
    /// All of them.
    pub const ALL: [Axis; 3] = [Axis::Nodes, Axis::Queues, Axis::Waiting];

    /// Its title.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Nodes => "nodes",
            Axis::Queues => "queues",
            Axis::Waiting => "unschedulable asks waiting",
        }
    }

    /// Its points.
    pub const fn points(self) -> [usize; 5] {
        match self {
            Axis::Nodes => [500, 2_000, 10_000, 40_000, 100_000],
            Axis::Queues => [2, 20, 200, 2_000, 10_000],
            Axis::Waiting => [0, 100, 1_000, 10_000, 100_000],
        }
    }

    /// The workload at a point: S1 with fewer asks, grown in one direction.
    pub fn shape(self, point: usize) -> Option<Shape> {
        let base = Shape { asks: ASKS, ..ShapeId::S1.shape()? };
        Some(match self {
            // The asks fill a part of a large cluster only, so that their number is the same everywhere.
            Axis::Nodes => Shape { nodes: point, asks: ASKS, ..base },
            Axis::Queues => Shape { queues: point, ..base },
            Axis::Waiting => Shape { kind: Kind::Behind(point), queues: 1, ..base },
        })
    }
}

/// One measured point.
pub struct Point {
    /// Axis.
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

/// The three curves side by side as SVG, readable on light and dark pages.
pub fn svg(points: &[Point]) -> Result<String> {
    let mut svg = String::new();
    draw(points, &mut svg).map_err(|e| anyhow!("the plot cannot be drawn: {e}"))?;
    Ok(svg)
}

fn draw(points: &[Point], svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
    // Grey of middle brightness, since an image in a page does not know the page's colours.
    let ink = RGBColor(0x7d, 0x85, 0x90);
    let blue = RGBColor(0x3b, 0x82, 0xf6);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let top = points.iter().map(|point| point.micros).fold(1.0, f64::max) * 1.15;
    let text = ("sans-serif", 15).into_font().color(&ink);
    for (area, axis) in root.split_evenly((1, Axis::ALL.len())).iter().zip(Axis::ALL) {
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

/// The figures of the plot as Markdown.
pub fn markdown(points: &[Point]) -> String {
    let mut text = String::from("| grown | from | to | µs of CPU per allocation |\n| --- | ---: | ---: | --- |\n");
    for axis in Axis::ALL {
        let of: Vec<&Point> = points.iter().filter(|point| point.axis == axis).collect();
        let (Some(first), Some(last)) = (of.first(), of.last()) else { continue };
        let micros: Vec<String> = of.iter().map(|point| format!("{:.1}", point.micros)).collect();
        text.push_str(&format!("| {} | {} | {} | {} |\n", axis.name(), first.value, last.value, micros.join(" → ")));
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
