J``£6Cå$öBxó8CààCt-&CŠ/ÚB
ÍCCŠ/ÚBðÛ'C^ÆCvC‘¶C^RIC§V@CG¡CÇj;CŠ/ÚBYñBÒ.C¬‚(Cl;6Câ~,C+ÉìB)C