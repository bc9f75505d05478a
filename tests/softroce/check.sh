# Named checks and their count.
#
# Sourced by `run`, and by guest/cases inside the guest.

passed=0 failed=0 skipped=0

# What a check returns that cannot be made here, and has said why: it has neither passed nor failed.
cannot=77

# The names of the checks to run; without any, all are run.
only=()

# Whether the check $1 is to be run.
wanted() {
    ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]
}

# Prints the names of the checks in the scripts $@.
names() {
    sed -n 's/^ *check\(_by_name\)\? \([a-z-]*\) ".*/\2/p' "$@" | uniq
}

# Counts whether the command $3... succeeds, as the check named $1, $2 in words, and says so.
# Commands fail by what they return: `set -e` does not reach into them.
check() {
    local name=$1 words=$2 start=$SECONDS result=FAILED
    shift 2
    wanted "$name" || return 0
    if "$@"; then
        result=ok
        passed=$((passed + 1))
    elif (($? == cannot)); then
        result=SKIPPED
        skipped=$((skipped + 1))
    else
        failed=$((failed + 1))
    fi
    printf '%-6s %-12s %s (%d s)\n' "$result" "$name" "$words" $((SECONDS - start))
}

# Does what `check` does, and leaves the check out where none is named.
check_by_name() {
    ((${#only[@]} == 0)) || check "$@"
}

# Whether $1 is $2; says so when not.
expect() {
    [[ $1 == "$2" ]] || {
        printf 'expected: %s\n     got: %s\n' "$2" "$1" >&2
        return 1
    }
}

# The last line; fails when a check has failed.
summary() {
    local also=
    ((skipped == 0)) || also=", $skipped skipped"
    echo "softroce: $passed passed, $failed failed$also"
    ((failed == 0 && passed + skipped > 0))
}
