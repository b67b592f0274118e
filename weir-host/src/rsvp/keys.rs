//! The file of keys that sign messages: on each line the number of a key, its hash and its secret
//! in hexadecimal digits. The first key signs; the others are taken, too, so that keys can change.

use weir_rsvp::integrity::{Hash, Key, Security};

/// Reads keys; `first_sequence` is the number before that of the first message.
///
/// # Errors
/// When a line is wrong; the text names it and says what to write.
pub fn read(text: &str, first_sequence: u64) -> Result<Security, String> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let key = key(line).ok_or_else(|| {
            format!("line {} of the file of keys is no key; write {EXAMPLE}", number + 1)
        })?;
        keys.push(key);
    }
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(format!("the file of keys has {} keys; write 1 to {KEYS_MAX}", keys.len()));
    }
    Ok(Security { keys, challenge: false, first_sequence })
}

fn key(line: &str) -> Option<Key> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [id, hash, secret] = words.as_slice() else { return None };
    let id = id.parse().ok().filter(|id| *id < 1 << 48)?;
    let hash = match *hash {
        "md5" => Hash::Md5,
        "sha1" => Hash::Sha1,
        "sha256" => Hash::Sha256,
        _ => return None,
    };
    let secret =
        bytes(secret).filter(|secret| (SECRET_MIN..=SECRET_MAX).contains(&secret.len()))?;
    Some(Key { id, hash, secret })
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

const EXAMPLE: &str = "`1 sha256 SECRET` with the number of the key, md5, sha1 or sha256, and 16 \
                       to 64 bytes in hexadecimal digits (`openssl rand -hex 32` makes some)";
/// Bound: keys of a file of keys; a file with more is refused.
const KEYS_MAX: usize = 64;
const SECRET_MIN: usize = 16;
const SECRET_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_line_by_line() {
        let secret = "00112233445566778899aabbccddeeff";
        let text = format!("# keys\n\n7 sha256 {secret} # new\n6 md5 {secret}\n");
        let security = read(&text, 9).expect("they are sound");
        assert_eq!((security.keys.len(), security.first_sequence), (2, 9));
        assert_eq!((security.keys[0].id, security.keys[0].hash), (7, Hash::Sha256));
        assert_eq!(security.keys[1].secret[..3], [0, 0x11, 0x22]);
        let rows = [
            (String::new(), "has 0 keys"),
            (format!("7 sha256 {}", &secret[1..]), "line 1"),
            (format!("7 sha256 {}", &secret[2..]), "line 1"),
            (format!("\n7 sha512 {secret}"), "line 2"),
            (format!("{} md5 {secret}", 1u64 << 48), "line 1"),
            (format!("7 {secret}"), "line 1"),
            (format!("7 md5 {}", secret.replace('f', "g")), "line 1"),
            (format!("7 md5 {}", secret.replace('f', "ü")), "line 1"),
        ];
        for (text, wanted) in rows {
            let why = read(&text, 0).expect_err("it is wrong");
            assert!(why.contains(wanted), "{text}: {why}");
        }
    }
}
