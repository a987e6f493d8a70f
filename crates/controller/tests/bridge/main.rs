//! Networks as bridges of a real kernel, in network namespaces that vanish with the test.

#[allow(dead_code)] // this test uses a part of it
#[path = "../../../datapath/tests/lab/net.rs"]
mod net;
mod packets;
mod repairs;
mod site;
