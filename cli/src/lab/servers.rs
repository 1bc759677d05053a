//! `commensal lab servers`: allocators compared on real servers. Here is the command line only; `lab::servers` measures.

use std::process::ExitCode;

use lab::analysis::Analysis;
use lab::blocks::{self, Length, Plan};
use lab::json;
use lab::machine::{self, Machine};
use lab::report::{self, Chapter, Section};
use lab::servers::{Lengths, Servers, names, tables};
use lab::sheet::Sheet;
use lab::table;

use super::args::Lab;
use crate::failure::Failure;
use crate::{arms, places};

/// Enough to show a difference of four arms.
const BLOCKS: usize = 10;
const QUICK_BLOCKS: usize = 8;
const TITLE: &str = "allocators under real servers";

/// Compares. Status 1 if a server fails under one allocator only.
pub fn servers(request: &Lab) -> Result<ExitCode, Failure> {
    places::check(request.json.as_deref(), request.report.as_deref())?;
    let interrupt = places::interrupt()?;
    let (arms, told) = arms::chosen(&request.with, &request.arm)?;
    told.iter().chain(&machine::preflight()).for_each(places::tell);
    let all: Vec<String> = names().map(str::to_owned).collect();
    let chosen = if request.servers.is_empty() { &all } else { &request.servers };
    let lengths = if request.quick { Lengths::QUICK } else { Lengths::USUAL };
    let scratch = places::scratch("commensal-servers-")?;
    let prepared = Servers::prepare(chosen, &places::own()?, scratch.path(), lengths, &arms[0], &interrupt);
    let mut servers = prepared.inspect_err(|_| interrupt.obey()).map_err(Failure::of)?;
    if servers.subjects.is_empty() {
        let missing: Vec<String> = servers.missing.iter().map(ToString::to_string).collect();
        return Err(Failure::ours(format!("no server to measure: {}", missing.join("; "))));
    }
    let usual = if request.quick { QUICK_BLOCKS } else { BLOCKS };
    let blocks = request.blocks.map_or(usual, |blocks| blocks as usize);
    let plan = Plan::of(Length::Blocks(blocks), request.seed.unwrap_or_else(lab::any_seed));
    let subjects = std::mem::take(&mut servers.subjects);
    let measured = blocks::measure(subjects, &arms, plan, &interrupt).inspect_err(|_| interrupt.obey());
    let analysis = Analysis::of(measured.map_err(Failure::of)?);
    show(request, &servers, &analysis)?;
    drop(scratch);
    interrupt.obey();
    Ok(if analysis.has_fault() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(request: &Lab, servers: &Servers, analysis: &Analysis) -> Result<(), Failure> {
    let object = json::object("servers", &Machine::host(), &[(analysis, json::UNDOCUMENTED)]);
    let object = object.with("servers", &servers.about).and_then(|object| object.with("missing", &servers.missing));
    let object = object.map_err(Failure::of)?;
    places::show(&text(servers, analysis), request.json.as_deref())?;
    request.json.as_ref().map_or(Ok(()), |path| object.write(path)).map_err(Failure::of)?;
    if let Some(directory) = &request.report {
        let sections = vec![Section { sheets: sheets(analysis), ..Section::usual(analysis) }];
        let about = [about(servers), shown(analysis)].concat();
        let chapter = Chapter { title: TITLE.to_owned(), about, sheets: Vec::new(), pictures: &[], sections, object };
        report::write(directory, &[chapter]).map_err(Failure::of)?;
        places::tell(format_args!("wrote the report to {}", directory.join("index.html").display()));
    }
    Ok(())
}

fn text(servers: &Servers, analysis: &Analysis) -> String {
    let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let sheets: String = sheets(analysis).iter().map(|sheet| format!("\n{sheet}")).collect();
    format!(
        "{TITLE}\n{}{}{sheets}{}\n{}\n{}",
        table::conditions(analysis),
        lines(&about(servers)),
        if sheets.is_empty() { "" } else { tables::LEGEND },
        lines(&shown(analysis)),
        table::notes(analysis),
    )
}

/// What was measured, and what was not.
fn about(servers: &Servers) -> Vec<String> {
    let missing = servers.missing.iter().map(|missing| format!("not measured: {missing}"));
    servers.about.iter().map(tables::about).chain(missing).collect()
}

fn sheets(analysis: &Analysis) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    (0..analysis.rows.len()).map(|row| tables::of_server(analysis, row)).chain(tables::of_all(analysis)).collect()
}

/// Nothing, if not one block is whole.
fn shown(analysis: &Analysis) -> Vec<String> {
    let rows = if analysis.measured.blocks == 0 { 0 } else { analysis.rows.len() };
    (0..rows).flat_map(|row| tables::shown(analysis, row)).collect()
}
