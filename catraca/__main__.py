from catraca.cli import main

main()
