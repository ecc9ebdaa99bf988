//! Events as lines of text or JSON (J9).

use std::io::{self, Write};

use clap::ValueEnum;
use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::out,
    store::eventlog::{Ordered, Record},
};

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `TIME NAME KEY=VALUE …`
    Text,
    /// One compact object a line
    Json,
}

/// How times are printed in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeFormat {
    /// Seconds since 1970
    Raw,
    /// Date and time in the local zone
    Iso,
    /// Seconds since the first event
    Offset,
    /// Date and time, then seconds since
    #[value(alias = "reltime")]
    Human,
}

/// An event to print.
#[derive(Debug)]
pub struct Event {
    json: String,
    /// Seconds since 1970.
    at: f64,
    /// Its name.
    pub name: Box<str>,
    /// Its context; empty where there is none.
    pub context: Ordered,
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(json: &str) -> Result<Event, String> {
        let record = Record::parse(json.as_bytes())?;
        let object: Ordered = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let context = object.get("context").map_or(Ok(Ordered::default()), serde_json::from_str);
        Ok(Event {
            json: json.to_owned(),
            at: record.timestamp.parse().map_err(|_| format!("'timestamp' is {}", record.timestamp))?,
            name: record.name,
            context: context.map_err(|error| error.to_string())?,
        })
    }
}

/// Prints events in order.
pub struct Printer {
    format: Format,
    time_format: TimeFormat,
    zone: TimeZone,
    color: bool,
    /// The time that others are counted from, in microseconds: differences are those of the times as they are printed.
    base: Option<i64>,
}

const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const BLUE: &str = "\u{1b}[34m";
const MAGENTA: &str = "\u{1b}[35m";
const WHITE: &str = "\u{1b}[37m";
const RESET: &str = "\u{1b}[0m";

impl Printer {
    /// A printer. Times are those of the zone.
    pub fn new(format: Format, time_format: TimeFormat, zone: TimeZone, color: bool) -> Printer {
        Printer { format, time_format, zone, color, base: None }
    }

    /// Prints an event on a line.
    ///
    /// # Errors
    /// The output failed.
    pub fn print(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        if self.format == Format::Json {
            return writeln!(out, "{}", out::escaped(&event.json));
        }
        let time = self.time(event.at);
        write!(out, "{} {}", self.paint(GREEN, &time), self.paint(YELLOW, &out::line(&event.name)))?;
        for (key, value) in &event.context.0 {
            let value = value.get();
            let color = if value.starts_with('"') { MAGENTA } else { WHITE };
            write!(out, " {}={}", self.paint(BLUE, &out::line(key)), self.paint(color, &out::line(value)))?;
        }
        writeln!(out)
    }

    fn paint(&self, color: &str, text: &str) -> String {
        if self.color { format!("{color}{text}{RESET}") } else { text.to_owned() }
    }

    fn time(&mut self, at: f64) -> String {
        match self.time_format {
            TimeFormat::Raw => format!("{at:.6}"),
            TimeFormat::Iso => {
                let zoned = timestamp(at).to_zoned(self.zone.clone());
                let form = if zoned.offset().is_zero() { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%S.%6f%:z" };
                zoned.strftime(form).to_string()
            }
            TimeFormat::Offset => {
                let base = *self.base.get_or_insert(micros(at));
                format!("{:15.6}", seconds(micros(at).saturating_sub(base)))
            }
            TimeFormat::Human => match self.base {
                Some(base) if micros(at).saturating_sub(base) < 60_000_000 => {
                    format!("[{:+11.6}]", seconds(micros(at).saturating_sub(base)))
                }
                _ => {
                    self.base = Some(micros(at));
                    timestamp(at).to_zoned(self.zone.clone()).strftime("[%b%d %H:%M]").to_string()
                }
            },
        }
    }
}

fn micros(at: f64) -> i64 {
    // Second and fraction apart: their product in one has too few digits.
    (at.trunc() as i64).saturating_mul(1_000_000).saturating_add((at.fract() * 1e6).round() as i64)
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// What is beyond microseconds is cut, as Flux does, but of the digits: the number is often a little below those that were written.
fn timestamp(at: f64) -> Timestamp {
    let digits = at.to_string();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let micros = format!("{whole}{fraction:0<6.6}").parse().unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format, time_format: TimeFormat, color: bool) -> Vec<String> {
        let golden = concat!(
            r#"{"timestamp":1795194482.7712624,"name":"restart","context":{"ranks":"0-3","online":"","nodelist":"node[1-4]"}}"#,
            "\n",
            r#"{"timestamp":1795194483.379517,"name":"online","context":{"idset":"0"}}"#,
            "\n",
            r#"{"timestamp":1795194492.6589289,"name":"drain","context":{"idset":"1","nodelist":"node2","overwrite":0}}"#,
            "\n",
            r#"{"timestamp":1795194515.9247925,"name":"resource-update","context":{"expiration":1900000000.25}}"#,
            "\n",
            r#"{"timestamp":1795194560.5,"name":"truncate"}"#,
        );
        let mut printer = Printer::new(format, time_format, TimeZone::UTC, color);
        let mut out = Vec::new();
        for line in golden.lines() {
            printer.print(&Event::parse(line).unwrap(), &mut out).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        if format == Format::Json {
            assert_eq!(text, format!("{golden}\n"));
        }
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn times_have_four_forms() {
        // J9
        let raw = printed(Format::Text, TimeFormat::Raw, false);
        assert_eq!(raw[0], r#"1795194482.771262 restart ranks="0-3" online="" nodelist="node[1-4]""#);
        assert_eq!(raw[3], "1795194515.924793 resource-update expiration=1900000000.25");
        assert_eq!(raw[4], "1795194560.500000 truncate");
        let iso = printed(Format::Text, TimeFormat::Iso, false);
        assert_eq!(iso[3], "2026-11-20T17:08:35.924792Z resource-update expiration=1900000000.25");
        let offset = printed(Format::Text, TimeFormat::Offset, false);
        assert_eq!(offset[0], r#"       0.000000 restart ranks="0-3" online="" nodelist="node[1-4]""#);
        assert_eq!(offset[2], r#"       9.887667 drain idset="1" nodelist="node2" overwrite=0"#);
        let human = printed(Format::Text, TimeFormat::Human, false);
        assert_eq!(human[0], r#"[Nov20 17:08] restart ranks="0-3" online="" nodelist="node[1-4]""#);
        assert_eq!(human[1], r#"[  +0.608255] online idset="0""#);
        assert_eq!(human[4], "[Nov20 17:09] truncate", "a new date after a minute");
        printed(Format::Json, TimeFormat::Raw, false);
    }

    #[test]
    fn no_terminal_obeys_an_event() {
        let event = "{\"timestamp\":1,\"name\":\"drain\",\"context\":{\"reason\":\"a\u{9b}\u{202e}b\"}}";
        let event = Event::parse(event).unwrap();
        for (format, shown) in [(Format::Text, "reason=\"a  b\""), (Format::Json, r#""reason":"a\u009b\u202eb""#)] {
            let mut out = Vec::new();
            Printer::new(format, TimeFormat::Raw, TimeZone::UTC, false).print(&event, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(shown), "{out:?}");
        }
    }

    #[test]
    fn a_date_has_the_microseconds_that_were_written() {
        for (written, shown) in [
            ("1796010810.484253", "2026-11-30T03:53:30.484253Z"),
            ("1795194498.925685", "2026-11-20T17:08:18.925685Z"),
            ("1795194515.9247925", "2026-11-20T17:08:35.924792Z"),
            ("1796010810.5", "2026-11-30T03:53:30.500000Z"),
            ("1796010810", "2026-11-30T03:53:30.000000Z"),
            ("1.79601081e9", "2026-11-30T03:53:30.000000Z"),
        ] {
            let event = Event::parse(&format!(r#"{{"timestamp":{written},"name":"truncate"}}"#)).unwrap();
            let mut out = Vec::new();
            Printer::new(Format::Text, TimeFormat::Iso, TimeZone::UTC, false).print(&event, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("{shown} truncate\n"));
        }
    }

    /// All events of a session on a real Flux.
    fn session() -> Vec<Event> {
        let responses = include_str!("../../../tests/flux/03-journal-raw-live-consumer1.jsonl");
        let responses = responses.lines().map(|line| serde_json::from_str::<Ordered>(line).unwrap());
        let events = responses.flat_map(|response| {
            let events = response.get("events").unwrap().to_owned();
            serde_json::from_str::<Vec<Box<serde_json::value::RawValue>>>(&events).unwrap()
        });
        events.map(|event| Event::parse(event.get()).unwrap()).collect()
    }

    #[test]
    fn output_is_that_of_flux() {
        // What the same session looks like there, as `| head` or `| tail` cut it.
        let golden = include_str!("../../../tests/flux/07-eventlog-cli.txt");
        let mut compared = 0;
        for block in golden.split("$ ").filter(|block| !block.contains("[exit 1]")) {
            let Some((command, expected)) = block.split_once('\n') else { continue };
            let (time_format, color) = match command.split(" | ").next().unwrap_or_default() {
                "flux resource eventlog" => (TimeFormat::Raw, false),
                "TZ=UTC flux resource eventlog -T iso" => (TimeFormat::Iso, false),
                "flux resource eventlog -T offset" => (TimeFormat::Offset, false),
                "TZ=UTC flux resource eventlog -H" => (TimeFormat::Human, false),
                "flux resource eventlog --color=always" => (TimeFormat::Raw, true),
                _ => continue,
            };
            let expected: Vec<&str> =
                expected.lines().take_while(|line| !line.is_empty() && *line != "[exit 0]").collect();
            let mut printer = Printer::new(Format::Text, time_format, TimeZone::UTC, color);
            let mut out = Vec::new();
            for event in session() {
                printer.print(&event, &mut out).unwrap();
            }
            let text = String::from_utf8(out).unwrap().replace('\u{1b}', "^[");
            let lines: Vec<&str> = text.lines().collect();
            let from = if command.contains("| tail") { lines.len() - expected.len() } else { 0 };
            assert_eq!(lines[from..from + expected.len()], expected, "{command}");
            compared += 1;
        }
        assert_eq!(compared, 5);
    }
}
