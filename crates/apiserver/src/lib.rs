//! A small generic Kubernetes API in one process, for the sandbox and tests.
