//! The live view in a real terminal, that of tmux: what is on its screen, what keys do, and that the terminal is as before when the view ends.
//!
//! Numbers that differ from run to run are replaced in the snapshots, and nothing else: where columns begin and end is seen. After a change that is meant:
//! `INSTA_UPDATE=always cargo test -p cli --test top`.

mod common;

use common::terminal::Terminal;
use common::watched::{NAME, Place, Watched, eventually};
use insta::assert_snapshot;
use regex::{Captures, Regex};
use rustix::process::{Pid, Signal, kill_process};

const XTERM: &str = "xterm-256color";

/// Whether a letter is a piece of a fine line.
fn is_fine(letter: char) -> bool {
    matches!(letter, '\u{2801}'..='\u{28ff}')
}

/// What all screens of one process end with.
const KEYS: &str = " q quit  Esc back  1-6 show";

/// A screen, in which each number ends where it ended, and what is drawn is left out.
fn redacted(screen: &str, pid: u32) -> String {
    let number = Regex::new(
        r"(?P<before>^ *| +)(?:[0-9]+(?:\.[0-9]+)?(?: (?:[KMGT]iB|B|ns|us|ms|s|min|h|k|M|G)\b)?|-|never)(?P<after> ago)?(?P<end>$|  | (?:threads?|resident|│)|;)",
    );
    let number = number.unwrap();
    let line = |line: &str| {
        if line.starts_with(" 1 memory") || line.contains(" q quit") {
            return line.to_owned();
        }
        let mut line = line.replace(&format!("({pid})"), "(PID)");
        // Twice: what ends one number begins the next one.
        for _ in 0..2 {
            let shown = |found: &Captures<'_>| {
                let [before, after, end] =
                    ["before", "after", "end"].map(|name| found.name(name).map_or("", |part| part.as_str()));
                let width = found[0].chars().count() - after.len() - end.chars().count();
                match before.len() {
                    0 => format!("{:<width$}{after}{end}", "#"),
                    1 => format!(" #{after}{end}"),
                    _ => format!("{:>width$}{after}{end}", "#"),
                }
            };
            line = number.replace_all(&line, shown).into_owned();
        }
        let is_drawn = |letter: char| matches!(letter, '\u{2800}'..='\u{28ff}' | '•' | '▀' | '▄' | '█');
        line.replace(is_drawn, " ").trim_end().to_owned()
    };
    screen.lines().map(|text| line(text) + "\n").collect()
}

/// Likewise, of a table whose columns are as wide as what is in them.
fn squeezed(screen: &str, pid: u32) -> String {
    let redacted = redacted(screen, pid);
    // The first column has numbers, and ends where they do.
    let first = Regex::new(r"(?m)^ +(#|pid)").unwrap().replace_all(&redacted, "$1");
    let squeezed = Regex::new(r" {2,}").unwrap().replace_all(&first, "  ");
    Regex::new(r"\n{2,}").unwrap().replace_all(&squeezed, "\n").into_owned()
}

/// A view of one process that comes along often.
fn opened(terminal: &Terminal, watched: &Watched, before: &str, options: &str) -> u32 {
    let process = terminal.start(before, &format!("top --delay 0.2 {options} {}", watched.pid()));
    // Twice read, so that there is a rate; and the picture has its legend.
    terminal.wait_for("the process", |screen| {
        screen.contains(KEYS) && screen.contains(", running") && !screen.contains("  -  ")
    });
    process
}

#[test]
fn top_shows_one_process_and_follows_keys() {
    let place = Place::new();
    let watched = place.start(64, 50_000, 20);
    let Some(terminal) = Terminal::open("top_shows_one_process_and_follows_keys", XTERM, &place) else {
        return;
    };
    opened(&terminal, &watched, "", "");
    assert_eq!(terminal.modes(), (true, false), "another screen, without a cursor");
    let memory = terminal.screen();
    assert_snapshot!("memory", redacted(&memory, watched.pid()));
    assert!(
        memory.lines().any(|line| line.starts_with("in use") && line.contains(" 67.")),
        "64 MiB and small ones: {memory}"
    );
    terminal.wait_for("what is drawn", |screen| screen.contains(is_fine));
    terminal.key("2");
    terminal.letters("/orders");
    let typed =
        terminal.wait_for("the filter", |screen| screen.contains(" filter:  orders_") && screen.contains("cached"));
    assert!(!typed.contains("malloc-64"), "{typed}");
    terminal.key("Enter");
    let filtered = terminal.wait_for("the keys", |screen| screen.contains("only \"orders\""));
    assert_snapshot!("caches", squeezed(&filtered, watched.pid()));
    terminal.key("Escape");
    terminal.wait_for("all caches", |screen| screen.contains("malloc-200") || screen.contains("malloc-208"));
    for (key, expected) in [
        ("3", "unvisited"),
        ("4", "tenant"),
        ("5", "lock"),
        ("6", "upkeep shepherd"),
        ("End", "rcu lost"),
        ("Tab", "peak run"),
    ] {
        terminal.key(key);
        terminal.wait_for(key, |screen| screen.contains(expected));
    }
    terminal.key("?");
    let help = terminal.wait_for("help", |screen| screen.contains("reverse the order"));
    assert!(help.starts_with(NAME) && help.contains(KEYS), "{help}");
    terminal.key("x");
    terminal.wait_for("what was there before", |screen| screen.contains("peak run"));
    terminal.key("q");
    terminal.wait_for("the shell", |screen| screen.lines().rfind(|line| !line.is_empty()) == Some("$"));
}

#[test]
fn top_shows_all_processes_and_opens_one() {
    let place = Place::new();
    let (small, large) = (place.start(8, 0, 20), place.start(32, 0, 20));
    let Some(terminal) = Terminal::open("top_shows_all_processes_and_opens_one", XTERM, &place) else { return };
    terminal.resize(110, 24);
    terminal.start("", "top --delay 0.2");
    terminal.wait_for("the list", |screen| screen.contains("commensal top: ") && screen.matches(NAME).count() >= 2);
    // Root sees others', too.
    terminal.letters(&format!("/./{NAME}"));
    terminal.key("Enter");
    let order = |screen: &str| {
        let pids: Vec<u32> = screen
            .lines()
            .filter(|line| line.contains(NAME))
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
            .collect();
        pids
    };
    let list = terminal.wait_for("the two of ours, the larger first", |screen| {
        screen.contains(" only ") && order(screen) == [large.pid(), small.pid()]
    });
    let others = Regex::new(r"(?m)^! .*$|[0-9]+ running(, [0-9]+ gone)?").unwrap();
    let list = others.replace_all(&list, "").into_owned();
    assert_snapshot!("list", squeezed(&list, 0));
    terminal.key("r");
    terminal.wait_for("the smaller first", |screen| order(screen) == [small.pid(), large.pid()]);
    terminal.key("Down");
    terminal.key("Enter");
    terminal.wait_for("the larger one", |screen| screen.starts_with(&format!("{NAME} ({}), running", large.pid())));
    terminal.key("Escape");
    terminal.wait_for("the list", |screen| screen.contains("commensal top: "));
    terminal.key("C-c");
    terminal.wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
}

#[test]
fn pausing_leaves_everything_as_it_is() {
    let place = Place::new();
    let watched = place.start(4, 0, 20);
    let Some(terminal) = Terminal::open("pausing_leaves_everything_as_it_is", XTERM, &place) else { return };
    opened(&terminal, &watched, "", "");
    terminal.key("p");
    // The age of what is shown goes on.
    let ageless = |screen: &str| screen.lines().skip(1).collect::<Vec<_>>().join("\n");
    let paused = terminal.wait_for("that it is paused", |screen| screen.starts_with(" PAUSED "));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(ageless(&terminal.screen()), ageless(&paused));
    terminal.key("p");
    terminal.wait_for("that it goes on", |screen| !screen.contains("PAUSED") && ageless(screen) != ageless(&paused));
}

#[test]
fn screen_follows_the_size_of_the_terminal() {
    let place = Place::new();
    let watched = place.start(64, 0, 20);
    let Some(terminal) = Terminal::open("screen_follows_the_size_of_the_terminal", XTERM, &place) else { return };
    opened(&terminal, &watched, "", "");
    let first = redacted(&terminal.screen(), watched.pid());
    for (columns, lines) in [(40, 10), (132, 43), (20, 5), (80, 24)] {
        terminal.resize(columns, lines);
        let is_drawn = |screen: &str| {
            let rows: Vec<&str> = screen.lines().collect();
            let title = format!("{NAME} ({}), running; as of ", watched.pid());
            let starts_so =
                |row: &str, text: &str| row.starts_with(&text.chars().take(columns as usize).collect::<String>());
            // Title and keys stand on the first and the last line, and nothing of another size in between.
            rows.len() == lines as usize
                && starts_so(rows[0], &title)
                && starts_so(rows[lines as usize - 1], " q quit  Esc back")
                && rows.iter().filter(|row| row.starts_with(" q quit")).count() == 1
                && rows.iter().filter(|row| row.starts_with(" 1 memory")).count() == 1
        };
        terminal.wait_for(&format!("{columns} by {lines}"), is_drawn);
    }
    terminal.wait_for("what was there at first", |screen| redacted(screen, watched.pid()) == first);
}

#[test]
fn any_terminal_will_do_with_colours_where_it_has_some() {
    let place = Place::new();
    let watched = place.start(64, 50_000, 20);
    let name = "any_terminal_will_do_with_colours_where_it_has_some";
    let colour = Regex::new(r"\x1b\[(?:[0-9]+;)*(?:3[0-7]|38;[0-9;]+|4[0-7]|9[0-7])m").unwrap();
    let reversed = Regex::new(r"\x1b\[(?:[0-9]+;)*7m").unwrap();
    let mut screens = Vec::new();
    for (term, before, options, has_colours) in [
        ("xterm", "", "", true),
        ("screen", "", "", true),
        ("xterm-256color", "NO_COLOR=", "", true),
        ("xterm-256color", "NO_COLOR=1", "", false),
        ("xterm-256color", "", "--color=never", false),
    ] {
        let Some(terminal) = Terminal::open(name, term, &place) else { return };
        opened(&terminal, &watched, before, options);
        terminal.wait_for("a picture", |screen| screen.contains(is_fine));
        let shown = terminal.with_colours();
        assert_eq!(colour.is_match(&shown), has_colours, "TERM={term} {before} {options}: {shown:?}");
        // What is chosen, and by what it is sorted, is seen without colours.
        assert!(reversed.is_match(&shown), "{shown:?}");
        screens.push(redacted(&terminal.screen(), watched.pid()));
    }
    assert!(screens.windows(2).all(|pair| pair[0] == pair[1]), "{screens:#?}");
    // Without letters beyond ASCII there is no picture.
    let Some(terminal) = Terminal::open(name, "xterm", &place) else { return };
    opened(&terminal, &watched, "LC_ALL=C", "");
    let plain = terminal.screen();
    assert!(plain.is_ascii() && plain.contains("metadata"), "{plain}");
    terminal.key("q");
    terminal.wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    terminal.start("TERM=dumb", &format!("top {}", watched.pid()));
    terminal.wait_for("why not", |screen| {
        screen.replace('\n', "").contains("nothing can be drawn on this terminal (TERM is dumb); use --once")
    });
    terminal.enter("echo status $?");
    terminal.wait_for("its status", |screen| screen.contains("status 2"));
}

#[test]
fn terminal_is_restored_however_top_ends() {
    let place = Place::new();
    let watched = place.start(4, 0, 20);
    let Some(terminal) = Terminal::open("terminal_is_restored_however_top_ends", XTERM, &place) else { return };
    let before = terminal.shell("stty -a");
    assert!(before.contains(" echo ") && before.contains(" icanon "), "{before}");
    terminal.enter("echo what was there");
    let signals = [
        ("TERM", Signal::TERM, 143),
        ("INT", Signal::INT, 130),
        ("HUP", Signal::HUP, 129),
        ("QUIT", Signal::QUIT, 131),
    ];
    let ways = [("q", None, 0), ("C-c", None, 0), ("Escape", None, 0)].into_iter();
    for (name, signal, status) in ways.chain(signals.map(|(name, signal, status)| (name, Some(signal), status))) {
        let process = opened(&terminal, &watched, "", "");
        assert_eq!(terminal.modes(), (true, false), "{name}");
        match signal {
            Some(signal) => kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap(),
            None => terminal.key(name),
        }
        eventually("the other screen goes", || (terminal.modes() != (true, false)).then_some(()));
        assert_eq!(terminal.shell("echo $?").trim(), status.to_string(), "{name}");
        assert_eq!(terminal.modes(), (false, true), "{name}");
        assert_eq!(terminal.shell("stty -a"), before, "{name}");
        let screen = terminal.screen();
        assert!(screen.contains("what was there") && !screen.contains(KEYS), "{name}: {screen}");
        terminal.enter("clear; echo what was there");
    }
}

#[test]
fn ended_process_stays_on_the_screen() {
    let place = Place::new();
    let name = "ended_process_stays_on_the_screen";
    let ends: [fn(&mut Watched); 2] = [Watched::kill, Watched::finish];
    for end in ends {
        let mut watched = place.start(16, 0, 20);
        let pid = watched.pid();
        let Some(terminal) = Terminal::open(name, XTERM, &place) else { return };
        opened(&terminal, &watched, "", "");
        end(&mut watched);
        let title = format!("{NAME} ({pid}), gone; as of ");
        let screen = terminal.wait_for("that it is gone", |screen| screen.starts_with(&title));
        assert!(screen.lines().next().unwrap().ends_with(" ago, the last write of its page"), "{screen}");
        assert!(screen.lines().any(|line| line.starts_with("in use") && line.contains(" 16.")), "{screen}");
        let is_told = screen.contains(&format!("! there is no process {pid}, and none that left a statistics page"));
        assert_eq!(is_told, !place.page(pid).exists(), "{screen}");
        terminal.key("q");
        terminal.wait_for("the shell", |screen| screen.trim_end().ends_with('$'));
    }
}
