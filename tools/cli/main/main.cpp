#include "tools/cli/cli.h"

int main(int argc, char** argv) { return sinter::tools::run_cli(argc, argv); }
