//! The structures that this build shares with libibverbs, checked against the C compiler's idea of
//! them (VB-4). A field that is read or written here and moved in the library would show.

use std::fmt::Write;
use std::io::{self, Write as _};
use std::mem::{offset_of, size_of};
use std::process::Command;

use rdma_sys::*;

/// A structure's name, its size here, and fields: their name in C and offset here.
struct Layout {
    name: &'static str,
    bytes: usize,
    fields: Vec<(&'static str, usize)>,
}

/// Fields are named as in Rust, or, where C has an anonymous union, as in Rust and then as in C.
macro_rules! layouts {
    ($($name:ident { $($field:ident $(= $in_c:ident)?),* $(,)? })*) => {
        vec![$(Layout {
            name: stringify!($name),
            bytes: size_of::<$name>(),
            fields: vec![$((c_name!($field $($in_c)?), offset_of!($name, $field))),*],
        }),*]
    };
}

macro_rules! c_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $in_c:ident) => {
        stringify!($in_c)
    };
}

fn layouts() -> Vec<Layout> {
    layouts! {
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, abi_compat }
        ibv_device_attr {
            max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom,
            max_qp_init_rd_atom, atomic_cap, max_pkeys, phys_port_cnt,
        }
        ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, max_msg_sz, pkey_tbl_len, lid, sm_lid,
            link_layer, flags, port_cap_flags2,
        }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe, comp_events_completed }
        ibv_qp { context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, rate_limit,
        }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_gid { raw, global }
        ibv_sge { addr, length, lkey }
        ibv_send_wr {
            wr_id, next, sg_list, num_sge, opcode, send_flags,
            imm_data_invalidated_rkey_union = imm_data, wr, qp_type, bind_mw_tso_union = bind_mw,
        }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len,
            imm_data_invalidated_rkey_union = imm_data, qp_num, src_qp, wc_flags, pkey_index, slid,
            sl, dlid_path_bits,
        }
        ibv_async_event { element, event_type }
    }
}

/// A program that prints what [`layouts`] says, as the C compiler has it.
fn program(layouts: &[Layout]) -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         int main(void) {\n",
    );
    for Layout { name, fields, .. } in layouts {
        // Two of them are unions in C.
        let kind = if *name == "ibv_gid" { "union" } else { "struct" };
        writeln!(text, "printf(\"{name} %zu\\n\", sizeof({kind} {name}));").unwrap();
        for (field, _) in fields {
            let offset = format!("offsetof({kind} {name}, {field})");
            writeln!(text, "printf(\"{name}.{field} %zu\\n\", {offset});").unwrap();
        }
    }
    text + "return 0; }\n"
}

#[test]
fn structures_are_laid_out_as_in_c() {
    let layouts = layouts();
    let folder = std::env::temp_dir().join(format!("ringpost-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [source, binary] = ["layout.c", "layout"].map(|name| folder.join(name));
    std::fs::write(&source, program(&layouts)).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(&binary).arg(&source).output();
    match compiled {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ =
                writeln!(io::stderr(), "SKIPPED structures_are_laid_out_as_in_c: no C compiler");
        }
        compiled => {
            let compiled = compiled.unwrap();
            assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
            let printed = Command::new(&binary).output().unwrap().stdout;
            let mut expected = String::new();
            for Layout { name, bytes, fields } in &layouts {
                writeln!(expected, "{name} {bytes}").unwrap();
                for (field, offset) in fields {
                    writeln!(expected, "{name}.{field} {offset}").unwrap();
                }
            }
            assert_eq!(String::from_utf8(printed).unwrap(), expected);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
