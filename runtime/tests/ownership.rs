//! What has one owner cannot be taken twice: programs that break this do not compile, with the compiler's words for it.
//!
//! After a change of the compiler: `TRYBUILD=overwrite cargo test -p commensal-runtime --test ownership`, and read the difference.

#[test]
fn single_owner_taken_twice_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ownership/*.rs");
}
