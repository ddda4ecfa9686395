#include "tools/cli/cli.h"
#include "tools/serve/add_serve.h"

int main(int argc, char** argv) {
  constexpr sinter::tools::AddVerb kMore[] = {sinter::tools::add_serve};
  return sinter::tools::run_cli(argc, argv, kMore);
}
