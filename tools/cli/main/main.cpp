// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cli.h"
#include "tools/cli/main/modules.h"
#include "tools/serve/add_embed.h"
#include "tools/serve/add_serve.h"
#include "tools/serve/speech/serve_speech.h"
#include "tools/serve/vision/serve_vision.h"
#include "tools/speech/add_transcribe.h"

namespace sinter::tools {
namespace {

StartGrpcServer find_grpc() {
  constexpr ModuleOfCommand kGrpc = {"grpc", "gRPC", "sinter-grpc"};
  return reinterpret_cast<StartGrpcServer>(find_in_module(kGrpc, "sinter_start_grpc_server"));
}

}  // namespace
}  // namespace sinter::tools

int main(int argc, char** argv) {
  using namespace sinter::tools;
  constexpr AddVerb kMore[] = {
      [](Cli& cli) { add_serve(cli, find_grpc, make_speech_model, make_vision_model); }, add_embed,
      add_transcribe};
  return run_cli(argc, argv, kMore);
}
