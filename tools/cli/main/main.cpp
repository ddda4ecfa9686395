#include "tools/cli/cli.h"
#include "tools/serve/add_serve.h"
#include "tools/serve/grpc/grpc_server.h"

int main(int argc, char** argv) {
  constexpr sinter::tools::AddVerb kMore[] = {
      [](sinter::tools::Cli& cli) { add_serve(cli, sinter::tools::start_grpc_server); }};
  return sinter::tools::run_cli(argc, argv, kMore);
}
