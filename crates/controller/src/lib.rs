//! Watches, queue, targets and status: the loop that closes the difference.
