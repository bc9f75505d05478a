# Regions beside async-rdma, which is under the GPL: only this builds the program that uses it.
#
# Sourced by `run`, after `suite.sh`.

# Builds the program in rival/ in a target folder of its own.
build_rival() {
    env -u RUSTC_WORKSPACE_WRAPPER cargo build --locked --release --manifest-path "$here/rival/Cargo.toml" --target-dir "$1"
}

# Measures both in one guest, one right after the other.
beside_async_rdma() {
    local pace reach ringpost target=${CARGO_TARGET_DIR:-$here/../../target}/rival
    build_measured || return
    if ! build_rival "$target"; then
        echo "async-rdma, which comes from crates.io, does not build here: nothing is measured beside it"
        [[ -n ${RINGPOST_REQUIRE_RIVAL-} ]] || return "$cannot"
        return 1
    fi
    new_guest rival one <<<"exec bash ./regions"
    give_files rival "$here"/{check.sh,guest/measuring,guest/regions}
    give_program rival "$pace"
    give_program rival "$target/release/rival"
    run_guest rival 900
}
