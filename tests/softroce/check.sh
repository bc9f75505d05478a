# Named checks and their count.
#
# Sourced by `run`.

passed=0 failed=0

# Counts whether the command $2... succeeds, as the check $1, and says so. Commands fail by what
# they return: `set -e` does not reach into them.
check() {
    local name=$1 start=$SECONDS result=FAILED
    shift
    if "$@"; then
        result=ok
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    printf '%-6s %s (%d s)\n' "$result" "$name" $((SECONDS - start))
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
    echo "softroce: $passed passed, $failed failed"
    ((failed == 0 && passed > 0))
}
