// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cli.h"
#include "tools/serve/add_serve.h"
#include "tools/serve/grpc/grpc_server.h"
#include "tools/serve/speech/serve_speech.h"
#include "tools/speech/add_transcribe.h"

int main(int argc, char** argv) {
  constexpr sinter::tools::AddVerb kMore[] = {[](sinter::tools::Cli& cli) {
                                                add_serve(cli, sinter::tools::start_grpc_server,
                                                          sinter::tools::make_speech_model);
                                              },
                                              sinter::tools::add_transcribe};
  return sinter::tools::run_cli(argc, argv, kMore);
}
