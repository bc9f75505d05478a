# What the laboratory promises, checked: results come back, and nothing hangs unnoticed.
#
# Sourced by `run`.

# Runs the command $@ in a guest of one host for at most `seconds`; what it printed, and what the
# laboratory said, is in `said`, its status in `status`.
in_a_guest() {
    rm -rf "$scratch/one"
    status=0
    new_guest one one < <(command_script "$@")
    said=$(run_guest one "$seconds" 2>&1) || status=$?
}

output_and_status_come_back() {
    local said status seconds=120
    in_a_guest sh -c 'echo out; echo err >&2; exit 7'
    expect "$status" 7 && expect "$said" $'out\nerr'
}

a_program_brings_its_libraries() {
    local said status=0
    # socat needs more than the guest has, and would say so.
    said=$(with=("$here/run") && rm -rf "$scratch/one" &&
        run_program "$(command -v socat)" -u OPEN:run -) || status=$?
    expect "$status" 0 && expect "$said" "$(<"$here/run")"
}

two_devices_reach_each_other() {
    local said status seconds=120
    in_a_guest sh -c '
        ib_send_lat -d rxe1 -x 1 -n 100 -s 32 -F >/dev/null &
        until timeout 20 ib_send_lat -d rxe0 -x 1 -n 100 -s 32 -F 10.77.0.2; do sleep 1; done
        cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rdma_recvs
    '
    expect "$status" 0 && expect "$(tail -n 1 <<<"$said")" 100
}

a_hang_is_ended() {
    local said status seconds=30
    in_a_guest sh -c 'echo before; sleep 1000'
    expect "$status" "$no_result" && expect "$(head -n 1 <<<"$said")" before &&
        expect "$(sed -n 's/^softroce: //p' <<<"$said")" \
            "the guest was killed by the watchdog after $seconds s"
}

a_guest_that_does_not_start_is_booted_again() {
    local said status seconds=60 ready_seconds_max=1
    in_a_guest true
    expect "$status" "$no_result" &&
        expect "$(grep -c 'is booted again$' <<<"$said")" $((boots_max - 1)) &&
        expect "$(sed -n 's/^softroce: \(.* times\)$/\1/p' <<<"$said")" \
            "the guest was not ready after 1 s, $boots_max times"
}

a_panic_is_reported() {
    local said status seconds=120
    in_a_guest sh -c 'echo c >/proc/sysrq-trigger; sleep 1000'
    expect "$status" "$no_result" && expect "$(sed -n 's/^softroce: \([^:]*\): .*/\1/p' <<<"$said")" \
        "the guest's kernel panicked"
}

two_guests_share_a_wire() {
    local wire
    new_guest left wire 10.78.0.1 <<'END'
        while rping -s -a 10.78.0.1 -C 3; do echo served; done
END
    new_guest right wire 10.78.0.2 <<'END'
        until timeout 20 rping -c -a 10.78.0.1 -C 3; do sleep 1; done
        while sleep 1; do echo "carrier $(cat /sys/class/net/eth0/carrier)"; done
END
    join_wire left right 1
    start_guest left 180 "${wire[@]}"
    join_wire right left 2
    start_guest right 90 "${wire[@]}"
    wait_for_line left '^served$' 60 && wait_for_line right '^carrier 1$' 60 || return
    monitor right 'set_link cable off' && wait_for_line right '^carrier 0$' 30 || return

    kill_guest right
    ! end_guest right || return
    start_guest right 90 "${wire[@]}"
    wait_for_line right '^carrier 1$' 60 || return
    expect "$(grep -c '^served' "$scratch/left/output")" 2
    local passed=$?
    kill_guests
    wait
    return "$passed"
}

boot_seconds_max=15

it_boots_in_time() {
    local said status seconds=120 booted
    in_a_guest true
    # The firmware leaves the cursor in the middle of a line.
    booted=$(sed -n 's/^.*guest: ready after \([0-9.]*\) s\r*$/\1/p' "$scratch/one/console")
    echo "the guest was ready after ${booted:-no} s"
    expect "$status" 0 && expect "$said" "" &&
        awk -v booted="$booted" -v max="$boot_seconds_max" \
            'BEGIN { exit !(booted + 0 > 0 && booted + 0 < max + 0) }'
}

self_test() {
    check boot "a guest boots in less than $boot_seconds_max s" it_boots_in_time
    check status "output and exit status come back" output_and_status_come_back
    check libraries "a program brings its libraries" a_program_brings_its_libraries
    check devices "two devices of a host reach each other" two_devices_reach_each_other
    check hang "a command that hangs is ended" a_hang_is_ended
    check stuck "a guest that does not start is booted again" \
        a_guest_that_does_not_start_is_booted_again
    check panic "a kernel that panics is reported" a_panic_is_reported
    check wire "two guests share a wire, one is killed and restarted" two_guests_share_a_wire
    summary
}
