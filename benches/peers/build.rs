//! The build script: generates the service of tonic from Rust, so that protoc need not be
//! installed.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str, input: &str, output: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type(format!("crate::tonic::{input}"))
            .output_type(format!("crate::tonic::{output}"))
            .codec_path("tonic_prost::ProstCodec")
    };
    let service = Service::builder()
        .name("Scale")
        .package("bench")
        .method(method("echo", "Echo", "Block", "Block").build())
        .method(method("weigh", "Weigh", "Block", "Number").build())
        .method(method("handled", "Handled", "Number", "Number").build())
        .method(method("tell", "Tell", "Block", "Number").client_streaming().build())
        .build();
    Builder::new().compile(&[service]);
}
