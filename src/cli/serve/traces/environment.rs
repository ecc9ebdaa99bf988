//! What the environment says of traces, in the variables that OpenTelemetry has for all programs: what holds here beside the options,
//! and what is set in vain.

use std::{collections::BTreeMap, time::Duration};

use crate::trace::Sampling;

/// Variables that hold whatever they say: as options, or in the library.
const HEARD: [&str; 9] = [
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    // Heard where the sampler has a ratio.
    SAMPLER_ARG,
];

/// Variables of the library that hold a whole number.
const NUMBERS: [&str; 6] = [
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
];

const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// What is for all signals, where something else is said for traces.
const OF_ALL: &str = "OTEL_EXPORTER_OTLP_";

/// What the environment says of traces.
#[derive(Debug, Default, PartialEq)]
pub struct Environment {
    /// What turns them off.
    pub off: Option<String>,
    /// Which requests are traced.
    pub sampling: Option<Sampling>,
    /// The collector has to answer by then.
    pub patience: Option<Duration>,
    /// What is set and does nothing here, each with the reason.
    pub in_vain: Vec<String>,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        Environment::read(std::env::vars_os().filter_map(text))
    }

    /// Reads variables. An empty one counts as not set.
    fn read(variables: impl Iterator<Item = (String, String)>) -> Environment {
        let ours = |(name, value): &(String, String)| name.starts_with("OTEL_") && !value.is_empty();
        let set: BTreeMap<String, String> = variables.filter(ours).collect();
        let mut found = Environment::default();
        for (name, value) in &set {
            let of_traces = name.strip_prefix(OF_ALL).map(|rest| format!("{OF_ALL}TRACES_{rest}"));
            if of_traces.is_some_and(|other| set.contains_key(&other)) {
                continue;
            }
            if let Err(why) = found.hear(name, value, set.get(SAMPLER_ARG)) {
                found.in_vain.push(why);
            }
        }
        found
    }

    /// A variable; or why it does nothing.
    fn hear(&mut self, name: &str, value: &str, ratio: Option<&String>) -> Result<(), String> {
        let small = value.to_ascii_lowercase();
        let only = |known: &[&str]| match known.contains(&&*small) {
            true => Ok(()),
            false => Err(format!("{name}={value} (here it is {})", known.join(" or "))),
        };
        let number = || value.parse::<u64>().map_err(|_| format!("{name}={value} (no whole number)"));
        match name {
            "OTEL_SDK_DISABLED" if small == "true" => self.off = Some(format!("{name}={value}")),
            "OTEL_TRACES_EXPORTER" if small == "none" => self.off = Some(format!("{name}={value}")),
            "OTEL_TRACES_EXPORTER" => only(&["otlp", "none"])?,
            "OTEL_LOGS_EXPORTER" | "OTEL_METRICS_EXPORTER" => only(&["none"])?,
            "OTEL_PROPAGATORS" if small.split(',').any(|one| one.trim() == "tracecontext") => {}
            "OTEL_PROPAGATORS" => only(&["tracecontext"])?,
            "OTEL_EXPORTER_OTLP_PROTOCOL" | "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" => only(&["http/protobuf"])?,
            "OTEL_EXPORTER_OTLP_COMPRESSION" | "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION" => only(&["gzip", "none"])?,
            "OTEL_EXPORTER_OTLP_TIMEOUT" | "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" => {
                self.patience = Some(Duration::from_millis(number()?));
            }
            "OTEL_TRACES_SAMPLER" => self.sampling = Some(sampling(&small, ratio)?),
            name if NUMBERS.contains(&name) => drop(number()?),
            // Those behind it are parts, of which what starts programs makes it.
            name if HEARD.contains(&name) || name.starts_with("OTEL_RESOURCE_ATTRIBUTES_") => {}
            // Its value may be a secret.
            name => return Err(name.to_owned()),
        }
        Ok(())
    }
}

/// What a sampler takes.
fn sampling(name: &str, ratio: Option<&String>) -> Result<Sampling, String> {
    let (by_caller, kind) = match name.strip_prefix("parentbased_") {
        Some(kind) => (true, kind),
        None => (false, name),
    };
    let share = match (kind, ratio) {
        ("always_on", _) | ("traceidratio", None) => 1.0,
        ("always_off", _) => 0.0,
        ("traceidratio", Some(text)) => {
            let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.ok_or_else(|| format!("{SAMPLER_ARG}={text} (no number from 0 to 1)"))?
        }
        _ => {
            let known = "always_on, always_off or traceidratio, or one of them behind parentbased_";
            return Err(format!("OTEL_TRACES_SAMPLER={name} (here it is {known})"));
        }
    };
    Ok(Sampling { share, by_caller })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Environment {
        Environment::read(set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn samplers_are_those_of_the_standard() {
        let of = |sampler, ratio| {
            let found = read(&[("OTEL_TRACES_SAMPLER", sampler), (SAMPLER_ARG, ratio)]);
            found.sampling.map(|found| (found.share, found.by_caller)).ok_or(found.in_vain)
        };
        assert_eq!(of("always_on", ""), Ok((1.0, false)));
        assert_eq!(of("parentbased_always_off", "7"), Ok((0.0, true)));
        assert_eq!(of("parentbased_traceidratio", "0.25"), Ok((0.25, true)));
        assert_eq!(of("traceidratio", ""), Ok((1.0, false)));
        for ratio in ["1.5", "-0.1", "NaN", "half"] {
            let refused = of("traceidratio", ratio).unwrap_err();
            assert_eq!(refused, [format!("OTEL_TRACES_SAMPLER_ARG={ratio} (no number from 0 to 1)")]);
        }
        assert!(of("xray", "").unwrap_err()[0].starts_with("OTEL_TRACES_SAMPLER=xray"));
    }

    #[test]
    fn what_is_said_for_traces_counts() {
        let found = read(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_INSECURE", ""),
            ("OTEL_RESOURCE_ATTRIBUTES_POD_NAME", "a"),
            ("OTHER", "x"),
        ]);
        let patience = Some(Duration::from_millis(2500));
        assert_eq!(found, Environment { patience, ..Environment::default() });
    }

    #[test]
    fn what_is_set_in_vain_is_named() {
        let found = read(&[
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "key=secret"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_PROPAGATORS", "b3"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ]);
        assert_eq!(found.off.as_deref(), Some("OTEL_TRACES_EXPORTER=none"));
        assert_eq!(
            found.in_vain,
            [
                "OTEL_BSP_MAX_QUEUE_SIZE=many (no whole number)",
                "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
                "OTEL_METRICS_EXPORTER=otlp (here it is none)",
                "OTEL_PROPAGATORS=b3 (here it is tracecontext)",
            ]
        );
    }
}
