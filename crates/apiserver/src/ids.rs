//! Uids and generated names from one seed, so that a run can be repeated exactly.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A small deterministic generator (SplitMix64): identity, not secrecy, is what it is for.
#[derive(Debug)]
pub(crate) struct Ids {
    state: u64,
}

/// Letters and digits that spell no words and are not mistaken for each other.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Ids {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Ids { state: seed.unwrap_or_else(unpredictable) }
    }

    /// Others, as repeatable as these and without taking any of them.
    pub(crate) fn branch(&self) -> Ids {
        Ids { state: !self.state }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// `base` with five random characters, cut so that the whole fits 63.
    pub(crate) fn name(&mut self, base: &str) -> String {
        let mut name: String = base.chars().take(58).collect();
        for _ in 0..5 {
            let at = self.next() % SUFFIX_ALPHABET.len() as u64;
            name.push(SUFFIX_ALPHABET[at as usize] as char);
        }
        name
    }
}

/// Seeds from the operating system, by way of the hash map's own keys.
fn unpredictable() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A bearer token: never from the seed, for a seed is no secret.
pub(crate) fn token() -> String {
    (0..4u8)
        .map(|part| {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u8(part);
            format!("{:016x}", hasher.finish())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (mut a, mut b) = (Ids::new(Some(7)), Ids::new(Some(7)));
        assert_eq!((a.uid(), a.name("x-")), (b.uid(), b.name("x-")));
        let uid = a.uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
    }
}
