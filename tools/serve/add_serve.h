// SPDX-License-Identifier: Apache-2.0
// The verb `sinter serve`.
#pragma once

#include <memory>

#include "tools/serve/models/speech_model.h"

namespace sinter::tools {

struct Cli;
class GrpcServer;
struct GrpcOptions;
class ModelRegistry;

/// start_grpc_server, or null in a command that is built without gRPC: there --grpc-port is
/// refused.
using StartGrpcServer = std::unique_ptr<GrpcServer> (*)(ModelRegistry&, const GrpcOptions&);

/// `make_speech`: make_speech_model, or null in a command that is built without: there --encoder is
/// refused. Gives `generate` its --requests, too.
void add_serve(Cli& cli, StartGrpcServer start_grpc, MakeSpeechModel make_speech = nullptr);

}  // namespace sinter::tools
