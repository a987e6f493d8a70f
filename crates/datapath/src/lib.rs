//! Linux gateways: observing and changing links, addresses, routes and NAT.
