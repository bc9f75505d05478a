# Running guests: one QEMU process each, under a watchdog, its result read from its console.
#
# Sourced by `run`, after `image.sh`, whose `new_guest` comes before `run_guest`. All of a guest is
# in $scratch/NAME: `console` (what the kernel and guest/init say), `pid`, `monitor` (a socket that
# takes QEMU's commands).

# What the laboratory itself answers where no command's exit status is to be had.
no_result=125

# Seconds within which a guest is ready, on a host that is busy, too, and how often one is booted
# that is not: the emulator or the kernel hangs now and then before it starts anything of ours.
ready_seconds_max=90 boots_max=3

# Boots the guest $1, and kills it after $2 seconds; the rest are more arguments for QEMU. Prints
# what the guest's command prints and returns its exit status, or says on standard error why there
# is none and returns `no_result`.
run_guest() {
    local seconds=$2 folder=$scratch/$1 accelerator=tcg status result boots=0
    shift 2
    { archive "$folder/tree" | zstd --quiet -1; } >"$folder/payload.cpio.zst"
    cat "$base" "$folder/payload.cpio.zst" >"$folder/initrd"
    # Not asked for by default: a /dev/kvm that is itself emulated may hang an ordinary kernel.
    [[ -z ${SOFTROCE_KVM-} ]] || accelerator=kvm

    while
        status=0
        boot "$@" || status=$?
        [[ -e $folder/stuck ]] && ((++boots < boots_max))
    do
        echo "softroce: the guest was not ready after $ready_seconds_max s, and is booted again" >&2
    done

    result=$(sed -n 's/^guest: exit \([0-9]*\)\r*$/\1/p' "$folder/console" 2>/dev/null || true)
    [[ -z $result ]] || return "$result"
    {
        echo "softroce: $(why_no_result "$folder/console" "$status" "$seconds")"
        tail -n 30 "$folder/console" | sed 's/^/  | /'
    } >&2
    return "$no_result"
}

# Starts QEMU with the arguments $@ for the guest in `folder`, and waits for its end. Kills one that is
# not ready in time, and leaves the file `stuck` then.
boot() {
    local watch status=0
    rm -f "$folder"/{console,wire,stuck,pid}
    kill_if_stuck &
    watch=$!
    timeout --foreground --kill-after=5 "$seconds" qemu-system-x86_64 \
        -machine q35,accel="$accelerator" -cpu max -smp 2 -m 1G \
        -nodefaults -nographic -no-reboot \
        -kernel "/boot/vmlinuz-$kernel" -initrd "$folder/initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 tsc=reliable clocksource=tsc" \
        -serial "file:$folder/console" -serial stdio \
        -monitor "unix:$folder/monitor,server=on,wait=off" -pidfile "$folder/pid" \
        "$@" </dev/null || status=$?
    kill "$watch" 2>/dev/null || true
    wait "$watch" || true
    return "$status"
}

# What it waits with must not hold the output open of who reads it.
kill_if_stuck() {
    local nap
    trap 'kill "$nap"; exit' TERM
    sleep "$ready_seconds_max" >/dev/null 2>&1 &
    nap=$!
    wait "$nap"
    if ! grep -a -q 'guest: ' "$folder/console"; then
        touch "$folder/stuck"
        kill -KILL "$(<"$folder/pid")"
    fi
}

# Says why a guest with the console $1 whose QEMU ended with $2 (within $3 seconds) gave no result.
why_no_result() {
    local words
    if [[ -e ${1%/*}/stuck ]]; then
        echo "the guest was not ready after $ready_seconds_max s, $boots_max times"
    elif words=$(grep -a -o -m 1 'Kernel panic - .*' "$1"); then
        echo "the guest's kernel panicked: $words"
    elif words=$(grep -a -o -m 1 '^guest: broken: .*' "$1"); then
        echo "the guest could not be set up: ${words#guest: broken: }"
    elif (($2 == 124)); then
        echo "the guest was killed by the watchdog after $3 s"
    else
        echo "the guest ended without a result, QEMU with $2"
    fi
}

# --- several guests at once -----------------------------------------------------------------

# The processes of `run_guest` that were started in the background, by the guest's name.
declare -A running=()

# Boots a guest as `run_guest` does, and does not wait for it. What its command prints is in
# $scratch/NAME/output, what `run_guest` has to say in $scratch/NAME/errors.
start_guest() {
    local folder=$scratch/$1
    : >"$folder/output"
    run_guest "$@" >"$folder/output" 2>"$folder/errors" &
    running[$1]=$!
}

# Waits until the guest $1 has ended, and returns what `run_guest` returned.
end_guest() {
    wait "${running[$1]}"
}

# Waits until the guest $1 has printed a line that matches $2; fails when it ends without one or
# has none in $3 seconds.
wait_for_line() {
    timeout "$3" bash -c '
        exec 3< <(exec tail -n +1 -s 0.1 -f --pid="$3" "$1") && tail=$!
        grep -a -q -m 1 -E -- "$2" <&3 && kill "$tail"
    ' - "$scratch/$1/output" "$2" "${running[$1]}"
}

# Sets `wire` to QEMU's arguments that connect the guest $1 to the guest $2 by a cable between them,
# which is a pair of sockets in $scratch: no packet leaves this machine. $3, 1 or 2, is the last
# number of the guest's address, 10.78.0.$3, for the network `wire`.
join_wire() {
    wire=(
        -device "virtio-net-pci,id=cable,netdev=wire,mac=52:54:00:00:00:0$3,romfile="
        -netdev "dgram,id=wire,local.type=unix,local.path=$scratch/$1/wire,remote.type=unix,remote.path=$scratch/$2/wire"
    )
}

# Tells the QEMU of the guest $1 the monitor command $2.
monitor() {
    echo "$2" | socat - "UNIX-CONNECT:$scratch/$1/monitor" >/dev/null
}

# Ends the guest $1 the way a failing power supply would.
kill_guest() {
    kill -KILL "$(<"$scratch/$1/pid")"
}

# Ends every guest of this run.
kill_guests() {
    local pid
    for pid in "$scratch"/*/pid; do
        [[ ! -e $pid ]] || kill -KILL "$(<"$pid")" 2>/dev/null || true
    done
}
