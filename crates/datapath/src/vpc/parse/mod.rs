//! From the sections of an observation to [`Have`].
//!
//! What vanished between two tools' listings is left out; what cannot be read is an error, because a
//! plan against half a picture would tear down the other half.

mod kernel;
mod nat;

use causeway_core::vpc::Have;

use crate::Trouble;
use crate::sections::Sections;

/// What a gateway holds.
pub(crate) fn have(sections: &Sections) -> Result<Have, Trouble> {
    let text = |name| sections.text(name);
    let kernel = kernel::kernel(text("kernel")?)?;
    Ok(Have {
        links: kernel.links,
        routes: kernel.routes,
        nat: nat::nat(sections)?,
        forwarding: text("forward")?.trim() == "1",
    })
}

/// An answer that cannot be understood.
fn unreadable(what: &'static str, why: impl ToString) -> Trouble {
    Trouble::Unreadable { what, why: why.to_string() }
}

#[cfg(test)]
mod tests;
