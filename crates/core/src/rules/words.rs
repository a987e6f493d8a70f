//! Words of strangers, as far as they can be shown to people.

/// At most so many characters, without those that would move a cursor, colour a terminal or turn a line around.
pub fn plain(text: &str, longest: usize) -> String {
    text.chars().take(longest).map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_plain(c: char) -> bool {
    let is_unseen = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_reach_beyond_its_place_is_replaced_and_all_else_stays() {
        assert_eq!(plain("größe 尺寸 👍 a-b_c.d/e", 99), "größe 尺寸 👍 a-b_c.d/e");
        assert_eq!(plain("a\u{1b}[31mb\r\nc\u{7}\u{9b}\u{202e}\u{200b}d", 99), "a�[31mb��c����d");
        assert_eq!(plain("12345", 3), "123");
    }
}
