//! The options that a server was started with, as `/api/v1/settings` shows them. Paths are shown, what is in the files never.

use std::collections::BTreeMap;

use clap::{Args as _, Command, FromArgMatches as _, ValueEnum, builder::Resettable};

use super::{AccessArgs, ClusterArgs, ServeArgs, TraceArgs, cluster::EtcdArgs, oidc::OidcArgs};
use crate::messages::settings::ServerOption;

/// The options in the order of the help, with their present values.
pub fn of(args: &ServeArgs) -> Vec<ServerOption> {
    let (mut given, plain) = (values(args), plain());
    let mut rows = described();
    for row in &mut rows {
        let value = given.remove(&row.name).unwrap_or_default();
        row.set = plain.get(&row.name) != Some(&value);
        row.value = Some(value).filter(|value| !value.is_empty());
    }
    rows
}

fn command() -> Command {
    ServeArgs::augment_args(Command::new("serve"))
}

/// The options without values.
pub fn described() -> Vec<ServerOption> {
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = command();
    let mut rows = Vec::new();
    for arg in command.get_arguments() {
        let Some(name) = arg.get_long() else { continue };
        let takes = arg.get_action().takes_values();
        let names = arg.get_value_names().unwrap_or_default().join(" ");
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if takes { defaults.join(",") } else { "false".to_owned() };
        rows.push(ServerOption {
            name: name.to_owned(),
            r#type: if takes { names } else { "flag".to_owned() },
            value: None,
            default: Some(default).filter(|default| !default.is_empty()),
            environment: arg.get_env().map(|name| name.to_string_lossy().into_owned()),
            set: false,
            description: one_line(arg.get_help().map(ToString::to_string).unwrap_or_default()),
        });
    }
    rows
}

/// What the values are where nothing is given, neither with the command nor in the environment.
fn plain() -> BTreeMap<String, String> {
    let command = command().mut_args(|arg| arg.env(Resettable::Reset));
    let args = command.try_get_matches_from(["serve"]).and_then(|matches| ServeArgs::from_arg_matches(&matches));
    args.as_ref().map(values).unwrap_or_default()
}

/// Each option by its name, as text; what was not given and has no default is empty.
fn values(args: &ServeArgs) -> BTreeMap<String, String> {
    // Whole, so that a new option is not forgotten.
    let ServeArgs {
        http,
        grpc,
        data,
        ephemeral,
        log_sync,
        trust_clock,
        config,
        ldap_secrets,
        no_reservations,
        http_max_body_bytes,
        first_request_timeout,
        rm_max_items,
        log_format,
        settings,
        end_with_stdin,
        access: AccessArgs { tokens, tls_cert, tls_key, tls_client_ca, insecure, allow_origin, oidc },
        cluster:
            ClusterArgs {
                etcd:
                    EtcdArgs {
                        cluster,
                        cluster_prefix,
                        cluster_ca,
                        cluster_cert,
                        cluster_key,
                        cluster_user,
                        cluster_password_file,
                    },
                advertise,
                advertise_grpc,
                cluster_lease,
                cluster_compact,
                cluster_max_bytes,
                forward,
                forward_ca,
            },
        traces: TraceArgs { otlp_endpoint, otlp_traces_endpoint, otlp_ca },
    } = args;
    let OidcArgs { oidc_issuer, oidc_audience, oidc_role, oidc_claim, oidc_rms_claim, oidc_ca } = oidc;
    let roles: Vec<String> = oidc_role.iter().map(|(value, role)| format!("{value}={role}")).collect();
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let set: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let options = [
        ("http", http.map(|door| door.to_string())),
        ("grpc", grpc.map(|door| door.to_string())),
        // Whoever reads it stands somewhere else.
        ("data", Some(std::path::absolute(data).as_ref().unwrap_or(data).display().to_string())),
        ("ephemeral", Some(ephemeral.to_string())),
        ("log-sync", name(log_sync)),
        ("trust-clock", Some(trust_clock.to_string())),
        ("config", path(config)),
        ("ldap-secrets", Some(ldap_secrets.display().to_string())),
        ("no-reservations", Some(no_reservations.to_string())),
        ("http-max-body-bytes", Some(http_max_body_bytes.to_string())),
        ("first-request-timeout", Some(format!("{first_request_timeout:?}"))),
        ("rm-max-items", Some(rm_max_items.to_string())),
        ("log-format", name(log_format)),
        ("set", Some(set.join(" "))),
        ("end-with-stdin", Some(end_with_stdin.to_string())),
        ("tokens", path(tokens)),
        ("tls-cert", path(tls_cert)),
        ("tls-key", path(tls_key)),
        ("tls-client-ca", path(tls_client_ca)),
        ("oidc-issuer", oidc_issuer.clone()),
        ("oidc-audience", oidc_audience.clone()),
        ("oidc-role", Some(roles.join(","))),
        ("oidc-claim", Some(oidc_claim.clone())),
        ("oidc-rms-claim", Some(oidc_rms_claim.clone())),
        ("oidc-ca", path(oidc_ca)),
        ("insecure", Some(insecure.to_string())),
        ("allow-origin", Some(allow_origin.join(","))),
        ("cluster", Some(cluster.join(","))),
        ("cluster-prefix", Some(cluster_prefix.clone())),
        ("advertise", advertise.clone()),
        ("advertise-grpc", advertise_grpc.clone()),
        ("cluster-lease", cluster_lease.map(|time| format!("{time:?}"))),
        ("cluster-compact", Some(cluster_compact.to_string())),
        ("cluster-max-bytes", cluster_max_bytes.map(|bytes| bytes.to_string())),
        ("forward", Some(forward.to_string())),
        ("forward-ca", path(forward_ca)),
        ("cluster-ca", path(cluster_ca)),
        ("cluster-cert", path(cluster_cert)),
        ("cluster-key", path(cluster_key)),
        ("cluster-user", cluster_user.clone()),
        ("cluster-password-file", path(cluster_password_file)),
        ("otlp-endpoint", otlp_endpoint.clone()),
        ("otlp-traces-endpoint", otlp_traces_endpoint.clone()),
        ("otlp-ca", path(otlp_ca)),
    ];
    options.into_iter().map(|(name, value)| (name.to_owned(), value.unwrap_or_default())).collect()
}

/// As it is given on the command line.
fn name(value: &impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_shown() {
        let matches = command().get_matches_from(["serve", "--data", "/d", "--set", "log.level=warn"]);
        let shown = of(&ServeArgs::from_arg_matches(&matches).expect("read"));
        let row = |name: &str| shown.iter().find(|row| row.name == name).expect("shown");
        let data = row("data");
        assert_eq!((&*data.r#type, data.value.as_deref(), data.set), ("DIR", Some("/d"), true));
        assert_eq!(data.default.as_deref(), Some("./callboard-data"));
        assert_eq!(data.environment.as_deref(), Some("CALLBOARD_DATA"));
        assert!(data.description.starts_with("Directory of everything"), "{}", data.description);
        let ephemeral = row("ephemeral");
        assert_eq!((&*ephemeral.r#type, ephemeral.value.as_deref()), ("flag", Some("false")));
        assert_eq!((row("tokens").value.as_deref(), row("set").value.as_deref()), (None, Some("log.level=warn")));
        let set: Vec<&str> = shown.iter().filter(|row| row.set).map(|row| &*row.name).collect();
        assert_eq!(set, ["data", "set"], "what has a value by default is not set");
    }

    #[test]
    fn each_option_has_a_value() {
        let names: Vec<String> = described().into_iter().map(|row| row.name).collect();
        let values = plain();
        assert_eq!(names.len(), values.len());
        assert!(names.iter().all(|name| values.contains_key(name)), "{names:?}");
    }
}
