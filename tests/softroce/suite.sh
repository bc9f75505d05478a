# The suite: what real verbs must show, in one guest and between two.
#
# Sourced by `run`.

text_bytes_min=5000000

# Sets `pace`, `reach` and `ringpost` to the programs that measure, built as in `tests/run`.
build_measured() {
    local target=${CARGO_TARGET_DIR:-$here/../../target} manifest=$here/../../Cargo.toml
    export LIBCLANG_PATH=${LIBCLANG_PATH:-/usr/lib/llvm-14/lib}
    pace=$target/release/pace reach=$target/release/reach ringpost=$target/release/ringpost
    # Optimized: without the wrapper that looks for lints as it compiles.
    env -u RUSTC_WORKSPACE_WRAPPER cargo build --locked --release --manifest-path "$manifest" \
        --features verbs -p ringpost-benches \
        -p ringpost-cli -p ringpost-examples -p ringpost-softroce --bin pace --bin reach \
        --bin ringpost --example wordcount
}

# The same build as in `tests/run`, whose steps before have made it: with the planted bugs, none of
# which is switched on.
features=verbs,mutants,test-kit

# Sets `unit_tests` to the transport's, which is all that the conformance cases need.
build_unit_tests() {
    local built
    export LIBCLANG_PATH=${LIBCLANG_PATH:-/usr/lib/llvm-14/lib}
    built=$(cargo test --locked --no-run --manifest-path "$here/../../Cargo.toml" --workspace \
        --features "$features" --lib --message-format=json) || return
    unit_tests=$(executable ringpost_transport <<<"$built")
    [[ -x $unit_tests ]]
}

# Sets `programs` to the folder of the programs, and the rest to the tests of the runtime and of nodes,
# and the programs that these start.
build_programs() {
    local target=${CARGO_TARGET_DIR:-$here/../../target} manifest=$here/../../Cargo.toml built
    programs=$target/debug
    build_measured || return
    # With an example the features of dev-dependencies count, as in `tests/run`.
    cargo build --locked --manifest-path "$manifest" --workspace --features "$features" \
        --bin meet --bin witness --example wordcount || return
    built=$(cargo test --locked --no-run --manifest-path "$manifest" --workspace \
        --features "$features" --lib --test nodes --test runtime --message-format=json) || return
    runtime_tests=$(executable runtime <<<"$built")
    node_tests=$(executable nodes <<<"$built")
    node=$(executable node <<<"$built")
    correspondent=$(executable correspondent <<<"$built")
    [[ -x $runtime_tests && -x $node_tests && -x $node && -x $correspondent ]]
}

# Prints the program of the target $1, of what cargo says it has built.
executable() {
    sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p'
}

# Gathers real text, the sources that cargo keeps here, in the folder $1.
gather_text() {
    local bytes=0 size file
    mkdir "$1"
    while ((bytes < text_bytes_min)) && read -r size file; do
        cp "$file" "$1/$bytes-${file##*/}"
        bytes=$((bytes + size))
    done < <(
        find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -name '*.rs' -size +20k \
            -printf '%s %p\n' | sort -k 2
    )
    ((bytes >= text_bytes_min)) || give_up "cargo keeps less than $text_bytes_min bytes of text here"
}

# Runs guest/cases, prints what it prints, and counts its checks as its own.
one_guest() {
    local output=$scratch/one/output status=0 seconds=1800
    new_guest one one <<<"exec bash ./cases ${only[*]}"
    give_files one "$here"/guest/{cases,meetings,measuring} "$here/check.sh"
    cp "$unit_tests" "$scratch/transport"
    give_program one "$scratch/transport"
    needs_unit_tests_alone || give_programs
    # Conformance takes a minute.
    if needs_unit_tests_alone; then seconds=600; fi
    run_guest one "$seconds" | tee "$output" || status=$?
    passed=$((passed + $(grep -c '^ok ' "$output" || true)))
    failed=$((failed + $(grep -c '^FAILED ' "$output" || true)))
    expect "$status" 0
}

# Gives the guest what the cases beside conformance start.
give_programs() {
    local program
    give_files one "$scratch/text"
    cp "$runtime_tests" "$scratch/runtime"
    cp "$node_tests" "$scratch/nodes"
    for program in "$scratch"/{runtime,nodes} "$node" "$correspondent" "$pace" "$reach" \
        "$ringpost" "$programs"/{meet,ledger_v1,ledger_v2,hasty,examples/wordcount}; do
        give_program one "$program"
    done
}

# The layouts that the fabric relies on are those of the C headers that are here.
layouts() {
    RINGPOST_REQUIRE_VERBS=1 "$unit_tests" fabric::verbs::layout
}

# Every case of the list ran on every fabric, but for those about frames that are acknowledged on a
# stream, and no case is missing from the list.
same_cases() {
    local fabric names all wanted
    all=$(<"$here/conformance.txt")
    "$unit_tests" fabric::sim::tests::conform fabric::tcp::tests >"$scratch/emulated" || return
    for fabric in sim::tests::conform{,::tcp,::tcps} tcp::tests{,::sealed} verbs::tests; do
        wanted=$all
        [[ $fabric != *tcp* ]] || wanted=$(grep -vxFf "$here/acknowledged.txt" <<<"$all")
        names=$(sed -n "s/^test fabric::$fabric::\([a-z_]*\) \.\.\. ok\r*$/\1/p" \
            "$scratch/emulated" "$scratch/one/output" | grep -xF -- "$wanted" | LC_ALL=C sort)
        echo "$fabric: $(grep -c . <<<"$names") cases"
        expect "$names" "$wanted" || return
    done
    # The list may only grow, and has what the simulator, which has nothing else there, runs.
    expect "$("$unit_tests" --list fabric::sim::tests::conform |
        sed -n 's/^fabric::sim::tests::conform::\([a-z_]*\): test$/\1/p' | LC_ALL=C sort)" "$all"
}

# Every case of the behaviour suite ran on every fabric.
same_behaviour() {
    local fabric names wanted
    wanted=$("$runtime_tests" --list behaviour::on_sim | sed -n 's/^.*::\(.*\): test$/\1/p' |
        LC_ALL=C sort)
    "$runtime_tests" behaviour::on_sim behaviour::on_tcp >"$scratch/behaved" || return
    for fabric in sim tcp verbs; do
        names=$(sed -n "s/^test behaviour::on_$fabric::\([a-z_]*\) \.\.\. ok\r*$/\1/p" \
            "$scratch/behaved" "$scratch/one/output" | LC_ALL=C sort)
        echo "behaviour: $(grep -c . <<<"$names") cases on $fabric"
        expect "$names" "$wanted" || return
    done
}

# --- two guests -----------------------------------------------------------------------------

here_address=10.78.0.1:7700 there_address=10.78.0.2:7700

# Begins the guests `left`, with the script $1, and `right`, with $2; both have the programs.
new_pair() {
    local secret name
    rm -rf "$scratch/left" "$scratch/right"
    secret=$(od -An -N 32 -tx1 /dev/urandom | tr -d ' \n')
    secret="export RUST_LOG=ringpost_transport=info RINGPOST_SECRET=$secret"
    new_guest left wire 10.78.0.1 <<<"$secret; $1"
    new_guest right wire 10.78.0.2 <<<"$secret; $2"
    for name in left right; do
        give_program "$name" "$programs/witness"
        give_program "$name" "$programs/examples/wordcount"
    done
}

start_left() {
    local wire
    join_wire left right 1
    start_guest left 240 "${wire[@]}"
}

start_right() {
    local wire
    join_wire right left 2
    start_guest right 240 "${wire[@]}"
}

# Ends the guests, and prints what they printed, but for words and what `tracing` says in passing.
end_pair() {
    local name
    kill_guests
    wait
    for name in left right; do
        sed -E "/^ +[0-9]+  [^ ]+$/d; / INFO .*(event=|fabric chosen)/d; s/^/  $name: /" \
            "$scratch/$name/output"
    done
}

# Whether every link between the guests was carried by verbs, $1 or more as `left` tells.
by_verbs() {
    local links
    links=$(grep -c 'a link is up .*fabric="verbs"' "$scratch/left/output")
    echo "  links by verbs: $links"
    ((links >= $1)) && grep -q 'fabric chosen .*fabric="verbs"' "$scratch/right/output" &&
        ! grep -h -E 'fabric="tcps?"|did not come up' "$scratch"/{left,right}/output
}

# The words are counted on the other host, after the command $1 there, and a second count here finds
# every word.
count_words_after() {
    local status=0 bytes
    new_pair "exec ./wordcount --nodes 0 --join 1 --listen $here_address --verify text" \
        "$1 && exec ./wordcount --node east --listen $there_address --seed $here_address"
    give_files left "$scratch/text"
    start_left
    start_right
    { end_guest left && end_guest right; } || status=$?
    bytes=$(sed -n 's/^verified: .* words, \([0-9]*\) bytes$/\1/p' "$scratch/left/output")
    end_pair
    ((status == 0 && ${bytes:-0} >= text_bytes_min))
}

word_count_across() {
    count_words_after true && by_verbs 1
}

# The other host has no device: it says so, and is linked by tcp, encrypted.
one_host_without_device() {
    count_words_after "rdma link delete rxe0" || return
    grep -o 'links use tcp why=.*' "$scratch/right/output" | grep 'no RDMA device' &&
        grep -q 'links use verbs where the peer does' "$scratch/left/output" &&
        grep -o 'fabric chosen .*' "$scratch/left/output" | grep 'fabric="tcps" encrypted=true theirs=\["tcps"\]' &&
        ! grep WARN "$scratch"/{left,right}/output
}

# `doctor` finds each way to the other host, `perf` measures over verbs, and the device has counted. A
# guest that waits for a busy host is not given up so soon.
tools_across() {
    local status=0 name said=$scratch/right/output
    local settings="unset RUST_LOG; export RINGPOST_DOWN_AFTER=30s"
    new_pair "$settings; exec ./ringpost perf serve --listen $here_address" "$settings
        ./ringpost doctor --peer $here_address &&
            ./ringpost perf $here_address --seconds 1 2>/tmp/progress ||
            { cat /tmp/progress; exit 1; }
    "
    for name in left right; do give_program "$name" "$ringpost"; done
    start_left
    { wait_for_line left '^serving at ' 60 && start_right && end_guest right; } || status=$?
    end_pair
    ((status == 0)) && grep -q '^  a link to serve-.* uses verbs, not encrypted$' "$said" &&
        grep -q '^  verbs, rxe0 .* to rxe0 .*: linked in .* 1 MiB: ' "$said" &&
        grep -q '^all well: 3 ways were tried, and work$' "$said" &&
        grep -q "^link to $here_address (serve-.*): verbs, not encrypted$" "$said" &&
        grep -q '^compare_exchange_rate: ' "$said" && grep -q '^  rxe0/1/sent_pkts +' "$said" &&
        ! grep -E 'tried before: |debug build' "$said"
}

# The other host loses its power: this one is told in time, nothing that was asked waits on, and
# another run of the lost node is welcome.
node_lost() {
    local status=0
    new_pair "exec ./witness watch $here_address $there_address" \
        "exec ./witness serve $there_address"
    start_left
    start_right
    lose_and_restart || status=$?
    end_pair
    # The lost one's, and the new one's.
    by_verbs 2 && return "$status"
}

# `down_after` is 8 s, and 2 s are allowed on top.
lose_and_restart() {
    wait_for_line left '^asking$' 60 || return
    kill_guest right
    wait_for_line left '^node down server: .' 10 || return
    wait_for_line left '^all asks ended$' 2 || return
    end_guest right
    start_right
    wait_for_line left '^joined again with 0 entries$' 60 && end_guest left
}

# The cable is pulled for two seconds: what was accepted and not reported lost has arrived.
cable_pulled() {
    local status=0
    new_pair "
        carrier() {
            until read -r now </sys/class/net/eth0/carrier && [ \"\$now\" = \$1 ]; do sleep 0.1; done
        }
        { carrier 0; carrier 1; sleep 1; } | ./witness send $here_address $there_address
    " "exec ./witness serve $there_address"
    start_left
    start_right
    pull_the_cable || status=$?
    end_pair
    by_verbs 1 && return "$status"
}

pull_the_cable() {
    wait_for_line left '^sending$' 60 || return
    monitor left 'set_link cable off'
    sleep 2
    monitor left 'set_link cable on'
    wait_for_line left '^the books agree$' 60 && end_guest left
}

# Whether of all cases only such were named as need the transport's unit tests and nothing else.
needs_unit_tests_alone() {
    local name
    ((${#only[@]} > 0)) || return
    for name in "${only[@]}"; do
        [[ $name == @(conformance|layout|guest) ]] || return
    done
}

suite() {
    local programs pace reach ringpost unit_tests runtime_tests node_tests node name
    for name in "${only[@]}"; do
        [[ " $(names "$here/guest/cases" | tr '\n' ' ')" != *" $name "* ]] || only+=(guest)
    done
    # That one alone has nothing of the others.
    if [[ ${only[*]} != rival ]]; then
        build_unit_tests || give_up "the unit tests do not build"
        needs_unit_tests_alone || { build_programs && gather_text "$scratch/text"; } ||
            give_up "the programs do not build"
    fi
    check guest "the cases of one guest ran to their end" one_guest
    check conformance "the same cases ran on sim, tcp and verbs" same_cases
    check behaviour "actors behave the same on sim, tcp and verbs" same_behaviour
    check layout "structures are laid out as in C" layouts
    check across "two hosts count words" word_count_across
    check perf "doctor and perf between two hosts" tools_across
    check one-host "one of two hosts has no device" one_host_without_device
    check lost "a host is lost and comes back" node_lost
    check cable "the cable is pulled for two seconds" cable_pulled
    check_by_name rival "side by side with async-rdma" beside_async_rdma
    summary
}
