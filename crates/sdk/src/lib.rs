//! Build ACP agents and clients, and Driver RPC drivers, that cannot deadlock, flood or leak children.
