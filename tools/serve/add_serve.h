// SPDX-License-Identifier: Apache-2.0
// The verb `sinter serve`.
#pragma once

#include <memory>

#include "tools/serve/models/speech_model.h"
#include "tools/serve/models/vision_model.h"

namespace sinter::tools {

struct Cli;
class GrpcServer;
struct GrpcOptions;
class ModelRegistry;

using StartGrpcServer = std::unique_ptr<GrpcServer> (*)(ModelRegistry&, const GrpcOptions&);
/// Called when a server over gRPC is asked for: start_grpc_server. Throws where it is not
/// installed.
using FindGrpc = StartGrpcServer (*)();

/// `find_grpc`: null in a command that is built without gRPC: there --grpc-port is refused.
/// `make_speech`: make_speech_model, or null in a command that is built without: there --encoder is
/// refused. Gives `generate` its --requests, too.
void add_serve(Cli& cli, FindGrpc find_grpc, MakeSpeechModel make_speech = nullptr,
               MakeVisionModel make_vision = nullptr);

}  // namespace sinter::tools
