// The verb `sinter serve`.
#pragma once

#include <memory>

namespace sinter::tools {

struct Cli;
class GrpcServer;
struct GrpcOptions;
class ModelRegistry;

/// start_grpc_server, or null in a command that is built without gRPC: there --grpc-port is
/// refused.
using StartGrpcServer = std::unique_ptr<GrpcServer> (*)(ModelRegistry&, const GrpcOptions&);

void add_serve(Cli& cli, StartGrpcServer start_grpc);

}  // namespace sinter::tools
