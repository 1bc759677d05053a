//! GCC's C++ compiler proper on one preprocessed file full of templates. It parses, expands and
//! optimizes; its trees are in memory of its own making, all else comes from malloc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use commensal_lab::blocks::Subject;
use commensal_lab::process::Program;

const SOURCE: &str = r#"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

template <int N> struct Shape {
  std::map<std::string, std::vector<std::shared_ptr<Shape<N - 1>>>> parts;
  std::function<int(int)> area = [](int x) { return x * N; };
  int total(int x) const {
    int sum = area(x);
    for (auto const& [name, group] : parts)
      for (auto const& part : group) sum += part->total(x) + int(name.size());
    return sum;
  }
};
template <> struct Shape<0> { int total(int x) const { return x; } };

template <int N> int build(int x) {
  Shape<N> shape;
  shape.parts["part " + std::to_string(x)].push_back(std::make_shared<Shape<N - 1>>());
  std::vector<int> values(x);
  std::generate(values.begin(), values.end(), [n = 0]() mutable { return n += N; });
  std::sort(values.begin(), values.end(), [](int a, int b) { return a % N < b % N; });
  return shape.total(values.empty() ? 0 : values.front()) + build<N - 1>(x);
}
template <> int build<0>(int x) { return x; }

int main(int argc, char**) { return build<3>(argc); }
"#;

/// The compiler without its driver, on the preprocessed file. It prints the assembly, which has to be the same.
pub fn prepare(scratch: &Path) -> Result<Subject> {
    let (source, input) = (scratch.join("gcc.cc"), scratch.join("gcc.ii"));
    fs::write(&source, SOURCE)?;
    let status = Command::new("g++").args(["-std=c++17", "-E", "-o"]).arg(&input).arg(&source).status();
    let status = status.context("no g++ in the path; Debian's package g++ brings it")?;
    ensure!(status.success(), "g++ -E failed with {status}");
    let printed = Command::new("g++").arg("-print-prog-name=cc1plus").output()?.stdout;
    let compiler = PathBuf::from(String::from_utf8(printed)?.trim());
    let options = ["cc1plus", "-quiet", "-fpreprocessed", "-std=c++17", "-O1", "-o", "-"].map(Into::into);
    let arguments = options.into_iter().chain([input.into_os_string()]);
    Ok(Subject::of_program("gcc", Program::new(compiler, arguments)))
}
