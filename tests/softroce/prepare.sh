# What the laboratory needs from the host: packages, and a kernel that has SoftRoCE.
#
# Sourced by `run`, which defines `give_up`.

# What must be there, and the Debian package that brings it.
needs=(
    qemu-system-x86_64:qemu-system-x86
    /bin/busybox:busybox-static
    modprobe:kmod
    cpio:cpio
    zstd:zstd
    socat:socat
    ip:iproute2
    rdma:iproute2
    /etc/libibverbs.d/rxe.driver:ibverbs-providers
    ibv_devinfo:ibverbs-utils
    rping:rdmacm-utils
    ib_send_lat:perftest
    strip:binutils
    # What a build with the feature `verbs` needs. Newer versions of clang do not do.
    pkg-config:pkg-config
    cc:gcc
    /usr/include/infiniband/verbs.h:libibverbs-dev
    /usr/include/rdma/rdma_cma.h:librdmacm-dev
    clang-14:clang-14
    /usr/lib/llvm-14/lib/libclang.so.1:libclang-14-dev
)

# Whether the program or file $1 is here.
present() {
    if [[ $1 == /* ]]; then [[ -e $1 ]]; else command -v "$1" >/dev/null; fi
}

# Sets `absent` to the packages that would bring what is missing.
find_absent() {
    local need
    absent=()
    for need in "${needs[@]}"; do
        present "${need%:*}" || absent+=("${need#*:}")
    done
    find_kernel
    [[ -n $kernel ]] || absent+=(linux-image-amd64)
}

# Sets `kernel` to the version of the newest kernel in /boot that can be read and has SoftRoCE.
find_kernel() {
    local image version
    kernel=
    while read -r image; do
        version=${image#/boot/vmlinuz-}
        if [[ -r $image && -e /lib/modules/$version/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko ]]
        then
            kernel=$version
        fi
    done < <(printf '%s\n' /boot/vmlinuz-* | sort -V)
}

# Installs what is missing where that can be done without asking, and else says what it is.
prepare() {
    PATH=$PATH:/usr/sbin:/sbin
    local absent
    [[ $(uname -m) == x86_64 ]] || give_up "the laboratory runs on x86-64, this is $(uname -m)"
    find_absent
    if ((${#absent[@]} > 0)) && [[ $(id -u) == 0 && -f /etc/debian_version ]]; then
        {
            apt-get update -q &&
                DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
                    "${absent[@]}"
        } >&2 || give_up "apt-get could not install: ${absent[*]}"
        find_absent
    fi
    ((${#absent[@]} == 0)) ||
        give_up "missing here; on Debian 12, as root: apt-get install ${absent[*]}"
}

# Returns true if nothing is missing here.
is_prepared() {
    PATH=$PATH:/usr/sbin:/sbin
    local absent
    [[ $(uname -m) == x86_64 ]] && find_absent && ((${#absent[@]} == 0))
}
