(JPCq^UOTrP;=I5${eB
~6T=A `q&sI4UMtfTTz''`pxl;