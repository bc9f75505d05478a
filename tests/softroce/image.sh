# The guest's root file system: an archive that the kernel unpacks into memory.
#
# It comes in two parts, one behind the other, as the kernel allows. The base is the same for every
# guest (tools, providers, kernel modules) and is kept, named by the hash of its contents. The
# payload is what one guest runs: its command, the network it wants, programs, files.
#
# Sourced by `run`, after `prepare.sh`, which sets `kernel`.

# Tools of the host that the guest has too.
guest_tools=(
    bash ip rdma ibv_devinfo rping
    ib_send_lat ib_send_bw ib_read_lat ib_read_bw ib_write_lat ib_write_bw ib_atomic_lat
)

# Modules, without those that they ask for. Without crc32_generic no rxe link can be made.
guest_modules=(
    crc32_pclmul crc32_generic
    rdma_rxe rdma_ucm ib_uverbs
    veth bridge virtio_net virtio_pci
)

# Copies every library that the program $2 names into the tree $1.
add_libraries() {
    local root=$1 file
    while read -r file; do
        add_file "$root" "$file"
    done < <(ldd "$2" 2>/dev/null | sed -n 's|^[^/]*\(/[^ ]*\) (0x.*$|\1|p')
}

# Copies the file $2 into the tree $1, to the place that it has here. Folders that are links here
# (/lib) are written where they lead, because a payload must not replace the base's links.
add_file() {
    local place
    place=$(realpath "$(dirname "$2")")/$(basename "$2")
    [[ -e $1$place ]] || install -D "$2" "$1$place"
}

# Fills the tree $1 with what every guest has.
fill_base() {
    local root=$1 folder tool module words provider
    for folder in bin sbin lib lib64; do
        mkdir -p "$root/usr/$folder"
        ln -s "usr/$folder" "$root/$folder"
    done
    mkdir -p "$root"/{proc,sys,dev,tmp,modules,job,etc/libibverbs.d}

    install -D /bin/busybox "$root/usr/bin/busybox"
    for tool in "${guest_tools[@]}"; do
        # Under the name that `ip` has everywhere, wherever the host keeps it.
        install "$(realpath "$(command -v "$tool")")" "$root/usr/bin/$tool"
        add_libraries "$root" "$(command -v "$tool")"
    done
    for provider in /usr/lib/*/libibverbs/librxe-rdmav*.so; do
        add_file "$root" "$provider"
        add_libraries "$root" "$provider"
        # The C library loads it when a thread ends early, and aborts without it.
        add_file "$root" "$(dirname "$(dirname "$provider")")/libgcc_s.so.1"
    done
    cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"

    for module in "${guest_modules[@]}"; do
        modprobe -S "$kernel" --show-depends "$module" ||
            give_up "the kernel $kernel has no module $module"
    done | while read -r -a words; do
        [[ ${words[0]} == insmod && ! -e $root/modules/${words[1]##*/} ]] || continue
        cp "${words[1]}" "$root/modules/"
        echo "${words[1]##*/}" >>"$root/modules/order"
    done
    cp -r "$here/guest/init" "$here/guest/network" "$root/"
}

# Writes the tree $1 as an archive to standard output: the same bytes for the same contents.
archive() {
    (cd "$1" && find . -exec touch -h -d @0 {} + && find . -print0 | LC_ALL=C sort -z |
        cpio --quiet --reproducible --null -o -H newc -R 0:0)
}

# Sets `base` to the base archive, made now unless one of the same contents was kept.
build_base() {
    local root=$scratch/base hash
    mkdir "$root"
    fill_base "$root"
    archive "$root" >"$scratch/base.cpio"
    hash=$(sha256sum <"$scratch/base.cpio" | cut -c 1-16)
    base=$kept/base-$hash.cpio.zst
    if [[ ! -e $base ]]; then
        zstd --quiet -5 "$scratch/base.cpio" -o "$scratch/base.cpio.zst"
        # In one step, for another run may be looking.
        mv "$scratch/base.cpio.zst" "$base"
    fi
    rm -r "$root" "$scratch/base.cpio"
}

# --- the payload ----------------------------------------------------------------------------

# Begins the guest named $1, which brings its network up as guest/network/$2 says, given the rest.
# Its command, a shell script, is standard input.
new_guest() {
    local job=$scratch/$1/tree/job
    shift
    mkdir -p "$job/files"
    echo "$*" >"$job/network"
    cat >"$job/command"
}

# Gives the guest $1 the program $2 in the folder that its command starts in.
give_program() {
    local file=$scratch/$1/tree/job/files/${2##*/}
    # Without symbols, or all programs would not fit the guest's memory; scripts stay what they are.
    strip -o "$file" "$2" 2>/dev/null || cp "$2" "$file"
    chmod +x "$file"
    add_libraries "$scratch/$1/tree" "$2"
}

# Gives the guest $1 the files and folders $2... there.
give_files() {
    local guest=$1
    shift
    cp -r "$@" "$scratch/$guest/tree/job/files/"
}
