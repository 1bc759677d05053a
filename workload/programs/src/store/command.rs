//! The commands: a table of names, how many arguments they need, and what they do.
//!
//! A command takes its words apart, changes the keyspace and writes its reply. Words that become values are moved, not
//! copied.

use std::collections::VecDeque;
use std::ops::Range;

use super::keyspace::Keyspace;
use super::protocol::{Words, write_bytes, write_header, write_line};
use super::sorted_set::SortedSet;
use super::value::{Bytes, Value, WrongKind};
use crate::map::Map;

/// Why a command is refused.
#[derive(Debug, PartialEq)]
enum Refusal {
    WrongKind,
    NoNumber,
}

impl From<WrongKind> for Refusal {
    fn from(_: WrongKind) -> Refusal {
        Refusal::WrongKind
    }
}

type Outcome = Result<(), Refusal>;

/// What a command does with its arguments.
type Action = fn(&mut Keyspace, Arguments, &mut Vec<u8>) -> Outcome;

/// The arguments that are left.
type Arguments = std::vec::IntoIter<Bytes>;

/// Each with the number of its arguments.
const COMMANDS: [(&str, usize, Action); 19] = [
    ("SET", 2, set),
    ("GET", 1, get),
    ("APPEND", 2, append),
    ("INCRBY", 2, increment),
    ("DEL", 1, delete),
    ("EXPIRE", 2, expire),
    ("DBSIZE", 0, count_keys),
    ("RPUSH", 2, push),
    ("LPOP", 1, pop),
    ("LRANGE", 3, list_range),
    ("LLEN", 1, list_length),
    ("HSET", 3, set_field),
    ("HGET", 2, get_field),
    ("HDEL", 2, delete_field),
    ("HLEN", 1, count_fields),
    ("ZADD", 3, add_member),
    ("ZREM", 2, remove_member),
    ("ZSCORE", 2, score),
    ("ZRANGE", 3, member_range),
];

/// Executes one command, and writes its reply, which may say why it was refused.
pub fn execute(keyspace: &mut Keyspace, words: Words, reply: &mut Vec<u8>) {
    keyspace.tick();
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default();
    let Some((name, needed, action)) = COMMANDS.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()))
    else {
        return write_line(reply, b'-', &format!("`{}` is no command", name.escape_ascii()));
    };
    if words.len() != *needed {
        return write_line(reply, b'-', &format!("{name} has {} arguments; it needs {needed}", words.len()));
    }
    match action(keyspace, words, reply) {
        Ok(()) => {}
        Err(Refusal::WrongKind) => {
            write_line(reply, b'-', &format!("the key holds a value of another kind than {name} needs"))
        }
        Err(Refusal::NoNumber) => write_line(reply, b'-', &format!("an argument of {name} is no number")),
    }
}

fn next(arguments: &mut Arguments) -> Bytes {
    arguments.next().expect("the number of arguments was checked")
}

fn number(bytes: &[u8]) -> Result<i64, Refusal> {
    str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Refusal::NoNumber)
}

/// The next two arguments as the first and the last of some places in a sequence; negative ones count from its end.
fn places(arguments: &mut Arguments, length: usize) -> Result<Range<usize>, Refusal> {
    let mut place = || number(&next(arguments)).map(|place| place.clamp(i64::MIN / 2, i64::MAX / 2));
    let (first, last) = (place()?, place()?);
    let length = length as i64;
    let from_start = |place| if place < 0 { length + place } else { place };
    let end = (from_start(last) + 1).clamp(0, length);
    Ok(from_start(first).clamp(0, end) as usize..end as usize)
}

fn write_found(reply: &mut Vec<u8>, found: Option<&[u8]>) {
    match found {
        Some(bytes) => write_bytes(reply, bytes),
        None => write_header(reply, b'$', -1),
    }
}

fn set(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let (key, value) = (next(&mut arguments), next(&mut arguments));
    keyspace.set(key, Value::Text(value.into_vec()));
    write_line(reply, b'+', "OK");
    Ok(())
}

fn get(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let found = keyspace.find::<Vec<u8>>(&next(&mut arguments))?;
    write_found(reply, found.map(|text| &text[..]));
    Ok(())
}

fn append(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let text = keyspace.find_or_create::<Vec<u8>>(next(&mut arguments))?;
    text.extend_from_slice(&next(&mut arguments));
    write_header(reply, b':', text.len() as i64);
    Ok(())
}

fn increment(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let text = keyspace.find_or_create::<Vec<u8>>(next(&mut arguments))?;
    let old = if text.is_empty() { 0 } else { number(text)? };
    let new = old.wrapping_add(number(&next(&mut arguments))?);
    *text = new.to_string().into_bytes();
    write_header(reply, b':', new);
    Ok(())
}

fn delete(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    write_header(reply, b':', i64::from(keyspace.remove(&next(&mut arguments))));
    Ok(())
}

fn expire(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let (key, after) = (next(&mut arguments), next(&mut arguments));
    let after = number(&after)?.max(0) as u64;
    write_header(reply, b':', i64::from(keyspace.expire(&key, after)));
    Ok(())
}

fn count_keys(keyspace: &mut Keyspace, _: Arguments, reply: &mut Vec<u8>) -> Outcome {
    write_header(reply, b':', keyspace.len() as i64);
    Ok(())
}

fn push(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let list = keyspace.find_or_create::<VecDeque<Bytes>>(next(&mut arguments))?;
    list.push_back(next(&mut arguments));
    write_header(reply, b':', list.len() as i64);
    Ok(())
}

fn pop(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let popped = keyspace.take_from(&next(&mut arguments), |list: &mut VecDeque<Bytes>| list.pop_front())?;
    write_found(reply, popped.flatten().as_deref());
    Ok(())
}

fn list_range(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let Some(list) = keyspace.find::<VecDeque<Bytes>>(&next(&mut arguments))? else {
        write_header(reply, b'*', 0);
        return Ok(());
    };
    let items = list.range(places(&mut arguments, list.len())?);
    write_header(reply, b'*', items.len() as i64);
    items.for_each(|item| write_bytes(reply, item));
    Ok(())
}

fn list_length(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let list = keyspace.find::<VecDeque<Bytes>>(&next(&mut arguments))?;
    write_header(reply, b':', list.map_or(0, |list| list.len()) as i64);
    Ok(())
}

fn set_field(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let hash = keyspace.find_or_create::<Map<Bytes, Bytes>>(next(&mut arguments))?;
    let (field, value) = (next(&mut arguments), next(&mut arguments));
    let is_new = hash.insert(field, value).is_none();
    write_header(reply, b':', i64::from(is_new));
    Ok(())
}

fn get_field(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let hash = keyspace.find::<Map<Bytes, Bytes>>(&next(&mut arguments))?;
    let field = next(&mut arguments);
    write_found(reply, hash.and_then(|hash| hash.get(&field)).map(|value| &value[..]));
    Ok(())
}

fn delete_field(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let (key, field) = (next(&mut arguments), next(&mut arguments));
    let deleted = keyspace.take_from(&key, |hash: &mut Map<Bytes, Bytes>| hash.remove(&field).is_some())?;
    write_header(reply, b':', i64::from(deleted == Some(true)));
    Ok(())
}

fn count_fields(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let hash = keyspace.find::<Map<Bytes, Bytes>>(&next(&mut arguments))?;
    write_header(reply, b':', hash.map_or(0, |hash| hash.len()) as i64);
    Ok(())
}

fn add_member(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let (key, score, member) = (next(&mut arguments), next(&mut arguments), next(&mut arguments));
    let score = number(&score)?;
    let is_new = keyspace.find_or_create::<SortedSet>(key)?.insert(&member, score);
    write_header(reply, b':', i64::from(is_new));
    Ok(())
}

fn remove_member(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let (key, member) = (next(&mut arguments), next(&mut arguments));
    let removed = keyspace.take_from(&key, |set: &mut SortedSet| set.remove(&member))?;
    write_header(reply, b':', i64::from(removed == Some(true)));
    Ok(())
}

fn score(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let set = keyspace.find::<SortedSet>(&next(&mut arguments))?;
    let score = set.and_then(|set| set.score(&next(&mut arguments)));
    write_found(reply, score.map(|score| score.to_string()).as_ref().map(String::as_bytes));
    Ok(())
}

/// Members and their scores in turn.
fn member_range(keyspace: &mut Keyspace, mut arguments: Arguments, reply: &mut Vec<u8>) -> Outcome {
    let Some(set) = keyspace.find::<SortedSet>(&next(&mut arguments))? else {
        write_header(reply, b'*', 0);
        return Ok(());
    };
    let members: Vec<(&[u8], i64)> = set.range(places(&mut arguments, set.len())?).collect();
    write_header(reply, b'*', 2 * members.len() as i64);
    for (member, score) in members {
        write_bytes(reply, member);
        write_bytes(reply, score.to_string().as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Reply, reply};
    use super::*;

    /// The reply to a line of words.
    fn answer(keyspace: &mut Keyspace, line: &str) -> Reply {
        let words = line.split(' ').map(|word| word.as_bytes().into()).collect();
        let mut bytes = Vec::new();
        execute(keyspace, words, &mut bytes);
        let (reply, taken) = reply(&bytes).expect("it is well-formed").expect("it is whole");
        assert_eq!(taken, bytes.len(), "one command has one reply");
        reply
    }

    /// A reply on one line.
    fn shown(reply: &Reply) -> String {
        match reply {
            Reply::Word(word) => word.clone(),
            Reply::Error(why) => format!("error: {why}"),
            Reply::Number(number) => number.to_string(),
            Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Nothing => "nothing".to_owned(),
            Reply::Array(replies) => format!("[{}]", replies.iter().map(shown).collect::<Vec<_>>().join(" ")),
        }
    }

    fn check(session: &[(&str, &str)]) {
        let mut keyspace = Keyspace::default();
        for (line, expected) in session {
            assert_eq!(shown(&answer(&mut keyspace, line)), *expected, "{line}");
        }
    }

    #[test]
    fn texts() {
        check(&[
            ("GET a", "nothing"),
            ("set a one", "OK"),
            ("APPEND a +two", "7"),
            ("GET a", "one+two"),
            ("INCRBY n 40", "40"),
            ("INCRBY n 2", "42"),
            ("INCRBY a 2", "error: an argument of INCRBY is no number"),
            ("DBSIZE", "2"),
            ("DEL a", "1"),
            ("DEL a", "0"),
        ]);
    }

    #[test]
    fn lists() {
        check(&[
            ("RPUSH l a", "1"),
            ("RPUSH l b", "2"),
            ("RPUSH l c", "3"),
            ("LRANGE l 0 -1", "[a b c]"),
            ("LRANGE l -2 1", "[b]"),
            ("LRANGE l 2 1", "[]"),
            ("LRANGE l 5 9", "[]"),
            ("LRANGE l 0 -4", "[]"),
            ("LRANGE l -9 0", "[a]"),
            ("LPOP l", "a"),
            ("LLEN l", "2"),
            ("LRANGE none 0 1", "[]"),
        ]);
    }

    #[test]
    fn hashes() {
        check(&[
            ("HSET h x 1", "1"),
            ("HSET h x 2", "0"),
            ("HGET h x", "2"),
            ("HLEN h", "1"),
            ("HDEL h y", "0"),
            ("HDEL h x", "1"),
            ("HLEN h", "0"),
            ("DBSIZE", "0"),
        ]);
    }

    #[test]
    fn sorted_sets() {
        check(&[
            ("ZADD z 5 e", "1"),
            ("ZADD z 1 a", "1"),
            ("ZADD z 3 e", "0"),
            ("ZADD z 3 c", "1"),
            ("ZRANGE z 0 -1", "[a 1 c 3 e 3]"),
            ("ZRANGE z 1 1", "[c 3]"),
            ("ZSCORE z e", "3"),
            ("ZREM z a", "1"),
            ("ZRANGE z 0 0", "[c 3]"),
            ("ZADD z x e", "error: an argument of ZADD is no number"),
        ]);
    }

    #[test]
    fn keys_expire_by_commands() {
        check(&[("SET a 1", "OK"), ("EXPIRE a 2", "1"), ("GET a", "1"), ("GET a", "nothing"), ("EXPIRE a 2", "0")]);
    }

    #[test]
    fn bad_commands_are_explained() {
        check(&[
            ("FLY a", "error: `FLY` is no command"),
            ("GET a b", "error: GET has 2 arguments; it needs 1"),
            ("SET a 1", "OK"),
            ("LPOP a", "error: the key holds a value of another kind than LPOP needs"),
        ]);
    }
}
