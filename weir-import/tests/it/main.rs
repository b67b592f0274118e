//! The tests of importers and exporters, one program: statements row by row, round trips.

mod altq_as_altqd;
mod export;
mod import;
mod pf_as_pf;
mod pf_as_pfctl;
#[path = "../../../weir-core/tests/it/common/seeds.rs"]
mod seeds;
mod statements;
mod tc_as_the_kernel;
