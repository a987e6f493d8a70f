//! Errors in words, for logs, conditions and people.

use std::error::Error;
use std::process::Output;

use kube::client::AuthError;

/// An error for a person: of a server's answer its message.
///
/// An error that says what is below it is not repeated by that; and where kube would print an answer as Rust sees it, a
/// page of fields, there is only its message, however deep it lies.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return match status.message.trim() {
            "" => format!("the API server answered {}", status.code),
            message => message.to_owned(),
        };
    }
    if let Some(AuthError::AuthExecRun { out, .. }) = error.downcast_ref() {
        return failed_plugin(out);
    }
    let text = error.to_string();
    let Some(inner) = error.source() else { return text };
    let (raw, words) = (inner.to_string(), describe(inner));
    let text = if raw.is_empty() { text } else { text.replace(&raw, &words) };
    if text.contains(&words) { text } else { format!("{text}: {words}") }
}

/// A command of a kubeconfig that should have given credentials, in its own last words. It is not quoted itself: its
/// environment may hold some.
fn failed_plugin(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it did not say why");
    format!("the kubeconfig's command for credentials failed ({}): {last}", output.status)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "Reason").with_code(code)))
    }

    #[test]
    fn an_answer_is_its_message_also_below_other_errors() {
        let refused = || answer(403, "leases is forbidden");
        assert_eq!(describe(&refused()), "leases is forbidden");
        assert_eq!(describe(&answer(503, "")), "the API server answered 503");
        let context = Err::<(), _>(refused()).context("reading the Secret").expect_err("an error");
        assert_eq!(describe(context.as_ref()), "reading the Secret: leases is forbidden");
        let deeper = Err::<(), _>(context).context("joining").expect_err("an error");
        assert_eq!(describe(deeper.as_ref()), "joining: reading the Secret: leases is forbidden");
        let watching = kube::runtime::watcher::Error::InitialListFailed(refused());
        let words = describe(&watching);
        assert!(words.ends_with(": leases is forbidden") && !words.contains("Status {"), "{words}");
    }

    #[test]
    fn causes_follow_unless_they_were_said() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(
            describe(&kube::Error::ReadEvents(refused())),
            kube::Error::ReadEvents(refused()).to_string()
        );
        let broken = kube::Error::Service(Box::new(std::io::Error::other("a cause")));
        assert_eq!(describe(&broken), "ServiceError: a cause");
    }

    #[test]
    fn a_command_that_gave_no_credentials_is_quoted_and_not_shown_as_bytes() {
        let output = std::process::Command::new("sh").args(["-c", "echo expired >&2; exit 7"]).output();
        let out = Box::new(output.expect("sh runs"));
        let error = kube::Error::Auth(AuthError::AuthExecRun { cmd: "TOKEN=x aws".into(), out });
        let words = "auth error: the kubeconfig's command for credentials failed (exit status: 7): expired";
        assert_eq!(describe(&error), words);
    }
}
