//! Curves over trace time as SVG. Text and axes take the colour of the page around them, so that one picture is
//! readable in light and in dark.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::trace::Millis;

const SIZE: (u32, u32) = (960, 320);
/// Points per curve; more cannot be seen.
const POINTS: usize = 480;
/// Stands for the page's text colour while drawing, and occurs nowhere else.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
/// Colours of middle brightness, told apart on white and on black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x3b, 0x82, 0xf6),
    RGBColor(0xe0, 0x7b, 0x39),
    RGBColor(0x22, 0xa0, 0x6b),
    RGBColor(0xd9, 0x46, 0x7f),
    RGBColor(0x8b, 0x6f, 0xe8),
    RGBColor(0xb5, 0x8b, 0x00),
    RGBColor(0x0e, 0x9a, 0xa7),
    RGBColor(0x8a, 0x8f, 0x98),
];

/// A named curve: a value holds from its point to the next.
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Trace time in ms, and value.
    pub points: Vec<(i64, f64)>,
}

/// Curves over a common time.
pub struct Plot {
    curves: Vec<Curve>,
    end: i64,
    top: f64,
    unit: &'static str,
}

impl Plot {
    /// Values are percent: the axis goes to 100.
    pub fn percent(curves: Vec<Curve>, end: i64) -> Plot {
        Plot { top: largest(&curves).max(100.0), curves, end, unit: " %" }
    }

    /// Values are numbers: the axis goes a little above the largest.
    pub fn count(curves: Vec<Curve>, end: i64) -> Plot {
        Plot { top: (largest(&curves) * 1.1).max(1.0), curves, end, unit: "" }
    }

    /// The picture.
    pub fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|e| anyhow!("the plot cannot be drawn: {e}"))?;
        // A page scales the picture by its own width.
        let fixed = format!("<svg width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
        Ok(svg.replace(INK_HEX, "currentColor").replacen(&fixed, "<svg role=\"img\" ", 1))
    }

    fn draw(&self, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let start = self.curves.iter().filter_map(|c| c.points.first()).map(|point| point.0).min().unwrap_or(0);
        let end = self.end.max(start + 1);
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(start..end, 0.0..self.top)?;
        let text = ("sans-serif", 14).into_font().color(&INK);
        chart
            .configure_mesh()
            .axis_style(INK.mix(0.5))
            .bold_line_style(INK.mix(0.15))
            .light_line_style(INK.mix(0.0))
            .label_style(text.clone())
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|at| Millis(*at - start).to_string())
            .y_label_formatter(&|value| format!("{value:.0}{}", self.unit))
            .draw()?;
        for (at, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let points = stairs(&thinned(&curve.points, start, end), end);
            let last = points.last().copied();
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(3)));
            if let Some(last) = last.filter(|_| self.curves.len() == 1) {
                chart.draw_series([Circle::new(last, 2, colour.filled())])?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .border_style(INK.mix(0.2))
            .label_font(text)
            .draw()?;
        root.present()?;
        Ok(())
    }
}

fn largest(curves: &[Curve]) -> f64 {
    curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max)
}

/// At most one point per column of the picture: the largest value in it, so that no peak is lost.
fn thinned(points: &[(i64, f64)], start: i64, end: i64) -> Vec<(i64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let column = |at: i64| ((at - start) as f64 / (end - start) as f64 * POINTS as f64) as i64;
    let mut thin: Vec<(i64, f64)> = Vec::with_capacity(POINTS + 1);
    for point in points {
        match thin.last_mut() {
            Some(last) if column(last.0) == column(point.0) => last.1 = last.1.max(point.1),
            _ => thin.push(*point),
        }
    }
    // The end is what it is.
    if let (Some(thin), Some(point)) = (thin.last_mut(), points.last()) {
        thin.1 = point.1;
    }
    thin
}

/// A value holds until the next one.
fn stairs(points: &[(i64, f64)], end: i64) -> Vec<(i64, f64)> {
    let until = points.iter().skip(1).map(|next| next.0).chain([end]);
    points.iter().zip(until).flat_map(|((at, value), until)| [(*at, *value), (until, *value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_take_the_colour_of_the_page() {
        let curve = Curve { name: "vcore".into(), points: vec![(0, 10.0), (5000, 60.0)] };
        let svg = Plot::percent(vec![curve], 10_000).svg().unwrap();
        assert!(svg.starts_with("<svg role=\"img\" "), "{}", &svg[..80]);
        assert!(svg.contains("currentColor") && !svg.contains(INK_HEX) && svg.contains("vcore"));
        assert!(!svg.contains("href"), "no outside resource");
    }

    #[test]
    fn no_peak_is_lost() {
        let mut points: Vec<_> = (0..10_000).map(|at| (at, 1.0)).collect();
        points[5003].1 = 99.0;
        let thin = thinned(&points, 0, 10_000);
        assert!(thin.len() <= POINTS + 1 && thin.iter().any(|point| point.1 == 99.0));
    }
}
