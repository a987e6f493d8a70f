//! Running a command in a pod: what the embedder of this server supplies.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// What is to be run, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// Who asks; empty where that is not known.
    pub user: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container, which exists in the pod; never absent when the server asks.
    pub container: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants output.
    pub stdout: bool,
    /// Whether the client wants error output.
    pub stderr: bool,
    /// Whether the command gets a terminal.
    pub tty: bool,
}

/// The ends of the streams that the command uses. Input that the client does not send is at its end
/// from the start; output that it does not want is swallowed.
pub struct ExecIo {
    /// What the client types.
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
    /// What the client sees.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// What the client sees as errors.
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
    /// The size of the client's terminal, as columns and rows, whenever it changes.
    pub resize: mpsc::Receiver<(u16, u16)>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEnd {
    /// It ran and returned this status.
    Exited(i32),
    /// It could not be run, and why.
    Failed(String),
}

/// Runs commands.
#[async_trait::async_trait]
pub trait Exec: Send + Sync + 'static {
    /// Called before the connection is upgraded; a refusal is an HTTP code, a reason and a message.
    /// A client that is refused may ask again at once in another protocol, so the answer should not
    /// depend on how often it was asked.
    ///
    /// # Errors
    /// When the command shall not run.
    async fn admit(&self, request: &ExecRequest) -> Result<(), (u16, String, String)>;

    /// Runs the command to its end. When the client goes away the future is dropped, which must
    /// stop the command. The client learns of the end once all of `io` has been dropped.
    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd;

    /// What a pod has written to its log; nothing, unless somebody keeps one.
    async fn log(&self, _namespace: &str, _pod: &str) -> String {
        String::new()
    }
}
